"""Build the pages from templates and results."""
