"""Collectives of dense vectors, written once on send and receive."""
