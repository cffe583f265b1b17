"""Closed-form timing models of the papers, device costs, and fitting them to measurements."""
