"""Tidy tables in, pages out: claims as data, their verdicts, figures as specifications (docs/design.md, Verdicts)."""
