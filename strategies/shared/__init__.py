"""Code that several strategies use; no file in this folder is a strategy."""
