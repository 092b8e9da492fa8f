"""One timed problem on the GPU: its buffers, its inputs, and whether a kernel computes the right thing."""

from __future__ import annotations

import math
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from cuda.bindings import driver

from kernels.launch import Gpu, LoadedKernel
from kernels.plan import TimedCase
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
        with ThreadPoolExecutor(len(_INPUTS)) as pool:
            values = pool.map(lambda index: _random_values(seed, index, case.dtype), range(len(_INPUTS)))
            for name, distinct in zip(_INPUTS, values, strict=True):
                self._fill_random(name, elements, distinct)
        self._rows = _sample_rows(case.n_ctx, np.random.default_rng([seed, len(_INPUTS)]))
        self._checked_heads = sorted({0, self.total_heads // 2, self.total_heads - 1})
        self._reference: dict[int, Future[SampledGradients]] = {}

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
        for head in self._checked_heads:
            for name, buffer in (("dq", "DQ16"), ("dk", "DK"), ("dv", "DV")):
                bits = self._download(buffer, head)
                if not self._is_finite(bits):
                    worst[name] = math.inf
                    continue
                found = self._as_float(bits[self._rows]).astype(np.float64)
                error = relative_error(found, getattr(self._reference[head].result(), name))
                worst[name] = max(worst[name], error)
        return worst

    def is_right(self, errors: dict[str, float], exact: bool) -> bool:
        """Whether all gradients are within tolerance; dq only of a variant that means to be exact."""
        tolerance = RELATIVE_TOLERANCE[self.case.dtype]
        return all(error <= tolerance for name, error in errors.items() if exact or name != "dq")

    def close(self) -> None:
        for buffer in self.buffers.values():
            buffer.close()

    def expect(self, pool: ThreadPoolExecutor) -> None:
        """Begin to compute what the gradients must be, once O, M and D are there. Must precede `errors`."""
        for head in self._checked_heads:
            read = self._inputs(head)
            self._reference[head] = pool.submit(self._expected, read)

    def _expected(self, read: tuple[np.ndarray, ...]) -> SampledGradients:
        """Raises ValueError if the forward or the preprocess kernel is wrong: then nothing can be judged."""
        expected = attention_gradients_at(self._rows, *read, self.case.causal)
        for name, found in (("lse", read[4]), ("delta", read[5])):
            error = relative_error(found[self._rows], getattr(expected, name))
            if error > RELATIVE_TOLERANCE[self.case.dtype]:
                raise ValueError(f"{self.case.slug}: the kernel that makes {name} is wrong ({error:.1e})")
        return expected

    def _inputs(self, head: int) -> tuple[np.ndarray, ...]:
        """Q, K, V, dO, log-sum-exp, delta of one head."""
        inputs = [self._as_float(self._download(name, head)) for name in _INPUTS]
        lse = self._download_rows("M", head) * math.log(2)  # kept in powers of two
        return (*inputs, lse, self._download_rows("D", head))

    def _download_rows(self, name: str, head: int) -> np.ndarray:
        n_ctx = self.case.n_ctx
        return self.gpu.download(self.buffers[name], np.float32, (n_ctx,), head * n_ctx * 4)

    def _download(self, name: str, head: int) -> np.ndarray:
        """One head of a tensor of the case's dtype, as its bits."""
        shape = (self.case.n_ctx, self.case.head_dim)
        return self.gpu.download(self.buffers[name], np.uint16, shape, head * shape[0] * shape[1] * 2)

    def _is_finite(self, bits: np.ndarray) -> bool:
        """By the exponent alone: five times faster than through float32, on 12 MB a kernel."""
        exponent = 0x7C00 if self.case.dtype == "fp16" else 0x7F80
        return not ((bits & exponent) == exponent).any()

    def _as_float(self, bits: np.ndarray) -> np.ndarray:
        if self.case.dtype == "fp16":
            return bits.view(np.float16).astype(np.float32)
        return (bits.astype(np.uint32) << 16).view(np.float32)

    def _fill_random(self, name: str, elements: int, values: np.ndarray) -> None:
        distinct = self.gpu.upload(values[:elements])
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
