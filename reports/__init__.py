"""The pages, a folder each: template (page.md.j2), figures, claims, and computations for that page alone."""
