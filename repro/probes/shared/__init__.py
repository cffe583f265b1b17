"""What several probes share. No file in here is a probe."""
