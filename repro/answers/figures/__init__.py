"""Figures: specifications, their rows, and drawing with matplotlib."""
