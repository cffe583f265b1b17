"""Readers and splits that data sets use."""
