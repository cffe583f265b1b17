"""Code that several probes use; no module here is a probe."""
