"""Canaries: work that no Triton commit can change, timed in the same blocks as the kernels (`_timed`).

If they move, the machine did. torch's attention backward (flash, cuDNN) needs torch in the environment; a
copy in device memory does not.
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks import _cases, _timed
from kernels.fingerprint import timing_fingerprint
from kernels.plan import CANARIES


class Canaries:
    """Seconds: of the whole backward of torch, of a copy of 256 MB."""

    params = (list(CANARIES), _cases.N_CTX, _cases.HEAD_DIMS, _cases.CAUSAL, _cases.DTYPES)
    param_names = ("canary", "n_ctx", "head_dim", "causal", "dtype")
    version = timing_fingerprint()
    unit = "seconds"
    timeout = 1800

    def setup_cache(self) -> dict[str, Any]:
        return _timed.session_of_commit()

    setup_cache.timeout = 1800  # type: ignore[attr-defined]

    def track_seconds(
        self, cache: dict[str, Any], canary: str, n_ctx: int, head_dim: int, causal: bool, dtype: str
    ) -> Any:
        if "skipped" in cache:
            return float("nan")
        document = _timed.document_of(cache, head_dim=head_dim, causal=causal, dtype=dtype, n_ctx=n_ctx)
        timed = document["canaries"][canary]
        if not timed["kernel_s"]:  # no torch, or torch cannot: skipped, and the session's file says why
            return float("nan")
        return {"samples": _timed.valid_samples(document, timed["kernel_s"]), "number": 1}

    track_seconds.pretty_name = "canary"  # type: ignore[attr-defined]


if __name__ == "__main__":
    print(json.dumps(_cases.describe(Canaries)))
