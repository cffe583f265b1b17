"""The virtual fabric: ranks as tasks of one thread, in deterministic virtual time, over modelled links."""
