"""Records as tables: which runs stand together, and which a page shows."""
