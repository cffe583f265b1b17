"""Records of runs: schema, event log, storage, reference, provenance, identity and tables."""
