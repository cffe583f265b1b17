"""Benchmarks of the harness itself: collectives beside their closed forms, the loop, codecs, the virtual fabric."""
