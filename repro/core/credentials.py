"""Credentials in texts of the user, which go into records, and with these to other people."""

from __future__ import annotations

import re

REDACTED = "[redacted]"
# the shapes of tokens that their issuers document, passwords in URIs, and assignments by name
SHAPES = (
    r"\bgh[pousr]_\w{20,}", r"\bgithub_pat_\w{20,}", r"\bglpat-[\w-]{20,}", r"\bhf_[A-Za-z0-9]{20,}",
    r"\bsk-[\w-]{20,}", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", r"\bxox[abeprs]-[\w-]{10,}", r"\bAIza[\w-]{30,}",
    r"\bnpm_[A-Za-z0-9]{30,}", r"\bpypi-[\w-]{30,}", r"\bdapi[0-9a-f]{32}\b",
    r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", r"-----BEGIN [A-Z ]*PRIVATE KEY-----", r"\b[Bb]earer +\S{16,}",
    r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)",
    r"\b(?i:password|passwd|secret|api[_-]?key|(?:access|auth)[_-]?token)\s*[=:]\s*\S{4,}",
)  # fmt: skip
CREDENTIAL = re.compile("|".join(SHAPES))


def has_credential(text: str) -> bool:
    """Whether a text has a part in the shape of a token, a key or a password."""
    return CREDENTIAL.search(text) is not None


def redact_credentials(text: str) -> str:
    """The text with such parts replaced."""
    return CREDENTIAL.sub(REDACTED, text)
