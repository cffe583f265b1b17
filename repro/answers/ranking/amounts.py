"""Amounts as short texts."""

from __future__ import annotations


def format_rate(samples_per_s: float) -> str:
    return f"{samples_per_s:,.0f}" if samples_per_s >= 100 else f"{samples_per_s:.3g}"


def format_ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 0.1 else f"{1e3 * seconds:.3g}"


def format_bits(rate: float) -> str:
    return f"{rate / 1e9:.3g} Gbit/s" if rate > 0.9995e9 else f"{rate / 1e6:.3g} Mbit/s"
