"""GPU time of attention's backward pass with every way to accumulate dQ, through one interleaved session.

`setup_cache` times everything of the commit in one GPU process (see `_timed`), and every `track_*` only hands
over samples: asv computes its statistics from them. On a machine without a GPU, or with one of another
architecture, everything is skipped.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from benchmarks import _cases, _timed
from kernels.fingerprint import timing_fingerprint
from kernels.flops import attention_flops


class AttentionBackward:
    """Seconds, for batch 4 and 8 heads as in issue 4717."""

    params = (
        _cases.VARIANTS,
        _cases.N_CTX,
        _cases.HEAD_DIMS,
        _cases.CAUSAL,
        _cases.DTYPES,
    )
    param_names = ("variant", "n_ctx", "head_dim", "causal", "dtype")
    version = timing_fingerprint()
    unit = "seconds"
    timeout = 1800

    def setup_cache(self) -> dict[str, Any]:
        return _timed.session_of_commit()

    setup_cache.timeout = 1800  # type: ignore[attr-defined]

    def track_kernel(
        self, cache: dict[str, Any], variant: str, n_ctx: int, head_dim: int, causal: bool, dtype: str
    ) -> Any:
        return samples_of(cache, "kernel", variant, n_ctx, head_dim, causal, dtype)

    def track_backward(
        self, cache: dict[str, Any], variant: str, n_ctx: int, head_dim: int, causal: bool, dtype: str
    ) -> Any:
        return samples_of(cache, "backward", variant, n_ctx, head_dim, causal, dtype)

    track_kernel.pretty_name = "backward kernel alone"  # type: ignore[attr-defined]
    track_backward.pretty_name = "whole backward: preprocess, zero fill, kernel, conversion of dQ"  # type: ignore[attr-defined]


def samples_of(
    cache: dict[str, Any], series: str, variant: str, n_ctx: int, head_dim: int, causal: bool, dtype: str
) -> Any:
    """asv's value for one case: samples, NaN (skipped), or an exception (failed)."""
    if "skipped" in cache:
        return float("nan")
    document = _timed.document_of(cache, head_dim=head_dim, causal=causal, dtype=dtype, n_ctx=n_ctx)
    subject = _timed.subject_of(document, cache["commit"], variant)
    if subject["status"] == "unsupported":
        return float("nan")
    return {"samples": _timed.valid_samples(document, subject[f"{series}_s"], series), "number": 1}


if __name__ == "__main__":
    shapes = itertools.product(_cases.N_CTX, _cases.HEAD_DIMS, _cases.CAUSAL)
    flops = [
        {
            "n_ctx": n,
            "head_dim": d,
            "causal": c,
            "flops": attention_flops(_timed.BATCH, _timed.HEADS, n, d, c),
        }
        for n, d, c in shapes
    ]
    print(json.dumps({**_cases.describe(AttentionBackward), "flops": flops}))
