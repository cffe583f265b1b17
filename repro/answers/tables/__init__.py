"""Tables of runs for pages and claims: read, group and select runs."""
