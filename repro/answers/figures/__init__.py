"""Figures from specifications, and what draws them."""
