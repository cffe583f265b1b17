"""The pages: a folder each, with its words (page.md.j2), figures, claims, and what is computed for it alone."""
