"""Attention over packed sequences: the one seam between models and kernels.

On CUDA in half precision a kernel reads the packed layout directly: flash-attn where it is
installed, torch's own otherwise. Everywhere else sequences of similar length share one SDPA call.
Only this file knows flash-attn. Nothing here knows a model.
"""

import importlib.util
import inspect
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.nn import functional

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.buckets import Bucket, KeyBlock
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.layers.masks import Bias, Window, make_key_mask, make_mask
from sie_mcp.adapters.layers.softcap import capped_attention

logger = logging.getLogger(__name__)

MAX_KERNEL_HEAD_DIM = 256
MAX_MEAN_TOKENS = 512
_HALF = (torch.float16, torch.bfloat16)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    batch: PackedBatch,
    *,
    causal: bool = False,
    window: Window = None,
    scale: float | None = None,
    bias: Bias | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Attend within each sequence of the batch.

    Args:
        q: `(num_tokens, num_heads, head_dim)`.
        k: `(num_tokens, num_kv_heads, head_dim)`; num_kv_heads divides num_heads.
        v: As k.
        batch: Tells where each sequence starts, and whether a kernel may run.
        causal: A token sees itself and what is before it.
        window: A token at i sees from i - left to i + right.
        scale: Of the scores; None is 1 / sqrt(head_dim).
        bias: Added to the scores; always takes the bucketed path.
        softcap: Bends the scores towards this limit; of the kernels only flash-attn does that.

    Returns:
        `(num_tokens, num_heads, head_dim)`.
    """
    # Kernels align the ends of keys and queries: a mask by distance would shift where they differ.
    is_shifted = batch.attended is not None and (causal or window is not None)
    is_open = batch.allows_kernels and bias is None and not is_shifted
    if is_open and softcap is None:
        tiled = _tiled(q, k, v, batch, _kernel_window(causal, window), scale)
        if tiled is not None:
            return tiled
    if is_open and _kernel_takes(q, softcap):
        return _packed_kernel(q, k, v, batch, _kernel_window(causal, window), scale, softcap)
    return _bucketed(q, k, v, batch, causal, window, scale, bias, softcap)


def _tiled(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    batch: PackedBatch,
    window: tuple[int, int],
    scale: float | None,
) -> torch.Tensor | None:
    """Run our own kernel where sequences are so short that it is the faster one."""
    is_simple = batch.attended is None and batch.prefix_of is None and batch.tiles is not None
    is_long = bool(batch.lengths) and batch.num_tokens > MAX_MEAN_TOKENS * batch.num_seqs
    if not is_simple or is_long:
        return None
    kernels = usable("attend", q, batch)
    if kernels is None or q.shape[-1] not in kernels.HEAD_DIMS:
        return None
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    attended: torch.Tensor = kernels.attend(
        q, k, v, batch.tiles,
        tile_rows=batch.tile_rows, window=window, scale=scale,
    )  # fmt: skip
    return attended


def read_kernels(device: torch.device) -> None:
    """Import the packed kernel of a device, for seconds, before a forward pass waits for it."""
    if device.type == "cuda" and _flash_attn() is None:
        _torch_kernel()


def _kernel_takes(q: torch.Tensor, softcap: float | None) -> bool:
    if not q.is_cuda:
        return False
    head_dim = q.shape[-1]
    caps = softcap is None or _flash_attn() is not None
    if caps and q.dtype in _HALF and head_dim % 8 == 0 and head_dim <= MAX_KERNEL_HEAD_DIM:
        return True
    _log_slow_path(str(q.dtype), head_dim, softcap)
    return False


@cache
def _log_slow_path(dtype: str, head_dim: int, softcap: float | None) -> None:
    logger.warning(
        "packed attention kernel not used dtype=%s head_dim=%d softcap=%s", dtype, head_dim, softcap
    )


def _kernel_window(causal: bool, window: Window) -> tuple[int, int]:
    left, right = window or (-1, -1)
    return (left, 0 if causal else right)


def _packed_kernel(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    batch: PackedBatch,
    window: tuple[int, int],
    scale: float | None,
    softcap: float | None,
) -> torch.Tensor:
    keys = batch.keys
    if keys.rows is not None:
        k, v = k[keys.rows], v[keys.rows]
    ends = (batch.cu_seqlens, keys.cu_seqlens, batch.max_seqlen, keys.max_seqlen)
    flash = _flash_attn()
    if flash is not None:
        return flash(
            q,
            k,
            v,
            *ends,
            softmax_scale=scale,
            causal=window == (-1, 0),
            window_size=window,
            **({} if softcap is None else {"softcap": softcap}),
        )
    if k.shape[1] != q.shape[1] and not _torch_kernel_shares_heads():
        k, v = _repeat_heads(k, q.shape[1]), _repeat_heads(v, q.shape[1])
    options: dict[str, Any] = {"scale": scale, "window_size": window}
    if k.shape[1] != q.shape[1]:
        options["enable_gqa"] = True
    attended: torch.Tensor = _torch_kernel()(q, k, v, *ends, **options)
    return attended


@cache
def _flash_attn() -> Callable[..., torch.Tensor] | None:
    """Return flash-attn's packed function where the package is installed."""
    if importlib.util.find_spec("flash_attn") is None:
        return None
    function: Callable[..., torch.Tensor] = importlib.import_module(
        "flash_attn"
    ).flash_attn_varlen_func
    return function


@cache
def _torch_kernel() -> Callable[..., Any]:
    """Import torch's packed function, which brings the compiler along."""
    function: Callable[..., Any] = importlib.import_module("torch.nn.attention.varlen").varlen_attn
    return function


@cache
def _torch_kernel_shares_heads() -> bool:
    """torch 2.11 has no enable_gqa; 2.13 has."""
    return "enable_gqa" in inspect.signature(_torch_kernel()).parameters


def _repeat_heads(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    return x.repeat_interleave(num_heads // x.shape[1], dim=1)


def _bucketed(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    batch: PackedBatch,
    causal: bool,
    window: Window,
    scale: float | None,
    bias: Bias | None,
    softcap: float | None,
) -> torch.Tensor:
    """One SDPA call for each bucket of similar lengths; padding exists inside this call alone."""
    if k.shape[1] != q.shape[1]:
        k, v = _repeat_heads(k, q.shape[1]), _repeat_heads(v, q.shape[1])
    # Masks and biases are made for each length: those get fewer.
    is_plain = window is None and bias is None and softcap is None and batch.prefix_of is None
    buckets = batch.exact_buckets if is_plain and not q.is_cuda else batch.buckets
    key_blocks: tuple[KeyBlock | None, ...] = (None,) * len(buckets)
    if batch.prefix_of is not None:
        assert bias is None  # Families with biases see both ways and share no prefix.
        k, v = k[batch.keys.rows], v[batch.keys.rows]
        key_blocks = batch.key_blocks
    out = torch.empty_like(q)
    for bucket, keys in zip(buckets, key_blocks, strict=True):
        blocks = (to_block(q, bucket), _key_block(k, bucket, keys), _key_block(v, bucket, keys))
        if keys is not None:
            mask: torch.Tensor | None = make_key_mask(keys, causal, window)
        else:
            is_written_out = batch.attended is not None or softcap is not None
            mask = make_mask(bucket, q, causal, window, bias, is_written_out=is_written_out)
        if softcap is not None:
            attended = capped_attention(*blocks, mask, scale=scale, softcap=softcap)
        else:
            attended = functional.scaled_dot_product_attention(
                *blocks, attn_mask=mask, is_causal=causal and mask is None, scale=scale
            )
        out[bucket.rows] = from_block(attended, bucket)
    return out


def to_block(x: torch.Tensor, bucket: Bucket) -> torch.Tensor:
    """Return `(num_seqs, num_heads, length, head_dim)`; padded places hold some real token."""
    rows = x[bucket.rows] if bucket.is_full else x[bucket.gather]
    return rows.view(bucket.num_seqs, bucket.length, *x.shape[1:]).transpose(1, 2)


def _key_block(x: torch.Tensor, bucket: Bucket, keys: KeyBlock | None) -> torch.Tensor:
    """Return a block of keys or values, those of prefixes included, `(num_seqs, heads, …)`."""
    if keys is None:
        return to_block(x, bucket)
    return x[keys.gather].view(bucket.num_seqs, keys.length, *x.shape[1:]).transpose(1, 2)


def from_block(block: torch.Tensor, bucket: Bucket) -> torch.Tensor:
    """Undo `to_block`: return the bucket's real tokens, `(num_rows, num_heads, head_dim)`."""
    _, num_heads, _, head_dim = block.shape
    flat = block.transpose(1, 2).reshape(-1, num_heads, head_dim)
    return flat if bucket.is_full else flat[bucket.places]
