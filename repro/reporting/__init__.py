"""Tidy tables in, pages out: claims as data, their verdicts, figures as specifications (DESIGN section 9)."""
