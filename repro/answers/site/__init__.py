"""A site of the built pages and of `docs/`, made by Sphinx, that works from files without a network."""
