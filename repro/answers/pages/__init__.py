"""Pages from templates, written to the workspace."""
