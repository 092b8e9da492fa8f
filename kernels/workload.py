"""One timed problem on the GPU: its buffers, its inputs, and whether a kernel computes the right thing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from cuda.bindings import driver

from kernels.launch import Gpu, LoadedKernel
from kernels.reference import (
    RELATIVE_TOLERANCE,
    SampledGradients,
    attention_gradients_at,
    relative_error,
    softmax_scale,
)

# Random numbers come from the host once; longer tensors repeat them, so that a session does not spend
# its time on input. The period is longer than any one head.
_DISTINCT_VALUES = 1 << 22
_INPUTS = ("Q", "K", "V", "DO")
_CHECKED_ROWS = 192  # of each checked head: both ends, the edges of tiles, and random ones


@dataclass(frozen=True)
class TimedCase:
    """A problem size. ``n_ctx`` must be a multiple of every tile (128): a timed shape has no padding."""

    head_dim: int
    causal: bool
    dtype: str
    n_ctx: int
    batch: int = 4
    heads: int = 8

    def __post_init__(self) -> None:
        if self.n_ctx % 128:
            raise ValueError(f"n_ctx {self.n_ctx}: a timed shape is a multiple of 128")

    @property
    def codegen_slug(self) -> str:
        return f"hd{self.head_dim}-{'causal' if self.causal else 'full'}-{self.dtype}"

    @property
    def slug(self) -> str:
        return f"{self.codegen_slug}-n{self.n_ctx}-b{self.batch}-h{self.heads}"


class Workload:
    """Buffers and inputs of one case, from a fixed seed. Close it to free the memory."""

    def __init__(self, gpu: Gpu, case: TimedCase, seed: int) -> None:
        self.gpu, self.case = gpu, case
        self.total_heads = case.batch * case.heads
        rows = self.total_heads * case.n_ctx
        elements = rows * case.head_dim
        self.buffers = {name: gpu.allocate(elements * 2) for name in (*_INPUTS, "O", "DK", "DV", "DQ16")}
        self.buffers |= {"DQ": gpu.allocate(elements * 4)}
        self.buffers |= {name: gpu.allocate(rows * 4) for name in ("M", "D")}
        for index, name in enumerate(_INPUTS):
            self._fill_random(name, elements, seed, index)
        self._rows = _sample_rows(case.n_ctx, np.random.default_rng([seed, len(_INPUTS)]))
        self._reference: dict[int, SampledGradients] = {}

    def arguments(self) -> dict[str, Any]:
        """What the kernels' signatures name."""
        return {
            **self.buffers,
            "DQ_ACC": self.buffers["DQ"],
            "sm_scale": softmax_scale(self.case.head_dim),
            "N_CTX": self.case.n_ctx,
            "N_VALID": self.case.n_ctx,
        }

    def bind(self, kernel: LoadedKernel) -> Any:
        arguments = self.arguments()
        if kernel.launch["kernel_name"] == "_attn_bwd_convert_dq":
            arguments["DQ"] = self.buffers["DQ16"]
        return kernel.bind(self.gpu, arguments, self.case.n_ctx, self.total_heads)

    def zero_dq(self) -> None:
        self.buffers["DQ"].fill(0, stream=self.gpu.stream)

    def poison(self) -> None:
        """NaN everywhere in the outputs, so that a row that is never written is seen."""
        for name in ("DK", "DV", "DQ16"):
            self.buffers[name].fill(0xFF, stream=self.gpu.stream)

    def errors(self) -> dict[str, float]:
        """Largest relative error of dq (as converted), dk and dv in the first, a middle and the last head:
        by value in the sampled rows; infinite if any row of these heads is not finite."""
        worst = {"dq": 0.0, "dk": 0.0, "dv": 0.0}
        for head in sorted({0, self.total_heads // 2, self.total_heads - 1}):
            expected = self._expected(head)
            actual = {
                name: self._download(buffer, head)
                for name, buffer in (("dq", "DQ16"), ("dk", "DK"), ("dv", "DV"))
            }
            for name, array in actual.items():
                error = relative_error(array[self._rows].astype(np.float64), getattr(expected, name))
                worst[name] = max(worst[name], error if np.isfinite(array).all() else math.inf)
        return worst

    def is_right(self, errors: dict[str, float], exact: bool) -> bool:
        """Whether all gradients are within tolerance; dq only of a variant that means to be exact."""
        tolerance = RELATIVE_TOLERANCE[self.case.dtype]
        return all(error <= tolerance for name, error in errors.items() if exact or name != "dq")

    def close(self) -> None:
        for buffer in self.buffers.values():
            buffer.close()

    def _expected(self, head: int) -> SampledGradients:
        """Raises ValueError if the forward or the preprocess kernel is wrong: then nothing can be judged."""
        if head not in self._reference:
            inputs = [self._download(name, head) for name in _INPUTS]
            lse = self._download_rows("M", head) * math.log(2)  # kept in powers of two
            delta = self._download_rows("D", head)
            expected = attention_gradients_at(self._rows, *inputs, lse, delta, self.case.causal)
            for name, found in (("M", lse), ("D", delta)):
                known = expected.lse if name == "M" else expected.delta
                error = relative_error(found[self._rows], known)
                if error > RELATIVE_TOLERANCE[self.case.dtype]:
                    raise ValueError(f"{self.case.slug}: the kernel that makes {name} is wrong ({error:.1e})")
            self._reference[head] = expected
        return self._reference[head]

    def _download_rows(self, name: str, head: int) -> np.ndarray:
        n_ctx = self.case.n_ctx
        return self.gpu.download(self.buffers[name], np.float32, (n_ctx,), head * n_ctx * 4)

    def _download(self, name: str, head: int) -> np.ndarray:
        """One head of a tensor of the case's dtype, as float32."""
        shape = (self.case.n_ctx, self.case.head_dim)
        offset = head * shape[0] * shape[1] * 2
        if self.case.dtype == "fp16":
            return self.gpu.download(self.buffers[name], np.float16, shape, offset).astype(np.float32)
        bits = self.gpu.download(self.buffers[name], np.uint16, shape, offset)
        return (bits.astype(np.uint32) << 16).view(np.float32)

    def _fill_random(self, name: str, elements: int, seed: int, index: int) -> None:
        distinct = self.gpu.upload(_random_values(seed, index, self.case.dtype)[:elements])
        start = int(self.buffers[name].handle)
        for offset in range(0, elements * 2, distinct.size):
            size = min(distinct.size, elements * 2 - offset)
            driver.cuMemcpyDtoD(start + offset, int(distinct.handle), size)
        distinct.close()


@cache
def _random_values(seed: int, index: int, dtype: str) -> np.ndarray:
    """`_DISTINCT_VALUES` normal numbers in the bits of the dtype; the same for every case of a session."""
    rng = np.random.default_rng([seed, index])
    values = rng.standard_normal(_DISTINCT_VALUES, dtype=np.float32)
    if dtype == "fp16":
        return values.astype(np.float16)
    return ((values.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)


def _sample_rows(n_ctx: int, rng: np.random.Generator) -> np.ndarray:
    """Rows to check: the ends, both sides of tile edges at the start, middle and end, and random ones."""
    edges = [0, 31, 32, 63, 64, 127, 128, n_ctx // 2 - 1, n_ctx // 2, n_ctx - 129, n_ctx - 128, n_ctx - 1]
    rows = {row for row in edges if 0 <= row < n_ctx}
    rows |= set(rng.integers(0, n_ctx, _CHECKED_ROWS - len(rows)).tolist())
    return np.array(sorted(rows))
