"""Shared utilities: errors, paths, the plugin registry, file locks, YAML and JSON. Imports no other room."""
