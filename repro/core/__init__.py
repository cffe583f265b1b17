"""What every room uses: errors, paths, the registry of plugins, locks, reading JSON. Imports no other room."""
