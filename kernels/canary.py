"""Work that no Triton commit can change, timed in the same blocks: it tells a slower machine from a slower
compiler. torch's attention backward (flash and cuDNN) and a copy in device memory.

torch is optional. Without it the copy serves, and the plan's anchor: a frozen commit's kernels.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernels.plan import TimedCase

if TYPE_CHECKING:  # so that what a canary is can be told without a GPU
    from kernels.launch import Gpu

_COPY_BYTES = 256 * 2**20
_BACKENDS = {"sdpa_flash": "FLASH_ATTENTION", "sdpa_cudnn": "CUDNN_ATTENTION"}
_WARM_UP = TimedCase(head_dim=64, causal=True, dtype="fp16", n_ctx=128)


@dataclass
class Canary:
    """``run`` is None where it cannot be timed here; ``message`` says why."""

    name: str
    run: Callable[[], None] | None
    message: str | None = None

    @property
    def key(self) -> str:
        return f"canary {self.name}"


class Canaries:
    """The canaries of one GPU. ``wanted``: their names; without torch's nothing of it is imported."""

    def __init__(self, gpu: Gpu, wanted: tuple[str, ...]) -> None:
        self._gpu, self._wanted = gpu, wanted
        self._copy = [gpu.allocate(_COPY_BYTES) for _ in range(2)]
        # The import and the first calls take seconds, most of them outside Python's lock.
        self._starting = ThreadPoolExecutor(1).submit(self._start)

    def _start(self) -> tuple[Any, str | None]:
        if not set(self._wanted) & set(_BACKENDS):
            return None, "not asked for"
        try:
            import torch

            torch.cuda.init()
        except (ImportError, RuntimeError, AssertionError) as error:
            return None, f"no torch with CUDA here: {error}"
        for backend in _BACKENDS.values():
            with contextlib.suppress(RuntimeError):  # told again, and recorded, at the first case
                _backward(torch, _WARM_UP, backend, torch.cuda.Stream())
        return torch, None

    def of_case(self, case: TimedCase, excluded: dict[str, str]) -> list[Canary]:
        """All canaries for a case; those of torch with its inputs on the GPU, until the list is dropped.

        ``excluded``: {"canary NAME": why}, of those that hung before.
        """
        found = [
            self._sdpa(case, name) if name in _BACKENDS else Canary(name, self._device_copy)
            for name in self._wanted
        ]
        return [Canary(c.name, None, excluded[c.key]) if c.key in excluded else c for c in found]

    def _device_copy(self) -> None:
        self._copy[0].copy_to(self._copy[1], stream=self._gpu.stream)

    def _sdpa(self, case: TimedCase, name: str) -> Canary:
        torch, why_not = self._starting.result()
        if torch is None:
            return Canary(name, None, why_not)
        try:
            return Canary(name, _captured_backward(torch, self._gpu, case, _BACKENDS[name]))
        except RuntimeError as error:
            return Canary(name, None, f"torch cannot: {str(error).splitlines()[0]}")


def _captured_backward(torch: Any, gpu: Gpu, case: TimedCase, backend: str) -> Callable[[], None]:
    """The backward as one CUDA graph: called op by op, torch would wait for the host between kernels."""
    side = torch.cuda.Stream()
    backward = _backward(torch, case, backend, side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        gradients = backward()
    stream = torch.cuda.ExternalStream(int(gpu.stream.handle))

    def run() -> None:
        with torch.cuda.stream(stream):
            graph.replay()

    run.keeps = (backward, gradients)  # type: ignore[attr-defined]  # the graph reads and writes their memory
    return run


def _backward(torch: Any, case: TimedCase, backend: str, stream: Any) -> Callable[[], Any]:
    """A call that runs one backward of a case, run once already: libraries allocate on their first call."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    generator = torch.Generator("cuda").manual_seed(case.n_ctx)
    shape = (case.batch, case.heads, case.n_ctx, case.head_dim)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[case.dtype]
    q, k, v, do = (torch.randn(shape, dtype=dtype, device="cuda", generator=generator) for _ in range(4))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    stream.wait_stream(torch.cuda.current_stream())
    # The engine runs a backward on its forward's stream, and only a side stream can be captured.
    with torch.cuda.stream(stream), sdpa_kernel([getattr(SDPBackend, backend)]):
        o = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=case.causal)

    def backward() -> Any:
        return torch.autograd.grad(o, inputs, do, retain_graph=True)

    with torch.cuda.stream(stream):
        backward()
    torch.cuda.synchronize()
    return backward
