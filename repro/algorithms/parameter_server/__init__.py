"""A parameter server that is sharded over several ranks (iBatch)."""
