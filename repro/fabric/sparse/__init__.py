"""Sparse gradients: selection, wire form, and their collectives."""
