"""Attention as it is on a GPU, for the memory of a forward pass."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import torch
from torch.nn import functional

_plain = functional.scaled_dot_product_attention


def attention_is_fused() -> AbstractContextManager[Any]:
    """A context in which PyTorch's attention keeps what its fused kernels keep (FlashAttention), on any device."""
    return patch.object(functional, _plain.__name__, _fused_attention)


class _FusedAttention(torch.autograd.Function):
    """What fused kernels of attention keep for the backward pass, which nothing here executes: not the scores."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, more: Any) -> torch.Tensor:
        out = _plain(query, key, value, **more)
        ctx.save_for_backward(query, key, value, out)
        return out


def _fused_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, **more: Any,
) -> torch.Tensor:  # fmt: skip
    """PyTorch's attention as it is on a GPU (FlashAttention); on other devices it keeps the scores of all pairs."""
    options = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal} | more
    return _FusedAttention.apply(query, key, value, options)  # type: ignore[no-any-return]
