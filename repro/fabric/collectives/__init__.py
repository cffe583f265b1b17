"""Collectives of dense vectors, written once on send and receive."""

DEFAULT_PIECES = 4  # of a block in a pipelined ring, where none are configured
