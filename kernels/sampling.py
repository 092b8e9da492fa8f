"""How one sample is taken: a block times every kernel once, in an order drawn anew from the recorded seed, so
that drift of clocks and temperature hits all alike.

Before each launch dQ is zeroed and then the L2 flushed, outside the timed region (zeroing after the flush
would leave dQ in the L2). Two series: "kernel" (the variant's own kernels, and the canaries) and "backward"
(preprocess, zeroing, kernels, conversion of dQ: what issue 4717 timed). This file is part of the method's
fingerprint; how many blocks are taken is decided in `blocks`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.session_file import Subject, exclusion_key

if TYPE_CHECKING:  # so that the order of things is tested without a GPU
    from cuda.core import Buffer

    from kernels.canary import Canary
    from kernels.launch import Gpu
    from kernels.plan import TimedCase
    from kernels.workload import Workload

FLUSH_BYTES = 128 * 2**20  # twice the 60 MB L2 of an H200 (50 MB: H100)
KERNEL_DEADLINE_S = 20.0  # the slowest kernel takes 0.2 s; one that takes longer than this hangs


class CulpritError(RuntimeError):
    """A kernel faulted or hung: this process's context is lost. ``key``: what to leave out next time."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


def wait(event: Any, culprit: Callable[[], str]) -> None:
    """Wait for an event of the stream, but not for ever. Raises CulpritError."""
    deadline_s = time.monotonic() + KERNEL_DEADLINE_S
    while not event.is_done:
        if time.monotonic() > deadline_s:
            raise CulpritError(culprit(), f"did not end within {KERNEL_DEADLINE_S:.0f} s")
        time.sleep(0.0002)


class Run:
    """The launches of one distinct identity, with its events."""

    def __init__(
        self,
        subject: Subject,
        launches: list[Any],
        preprocess: Any,
        convert: Any,
        workload: Workload,
        gpu: Gpu,
    ) -> None:
        self.subject, self.workload = subject, workload
        self._launches, self._preprocess, self._convert = launches, preprocess, convert
        self._stream = gpu.stream
        self.start, self.end = gpu.timing_event(), gpu.timing_event()

    def kernels_only(self) -> None:
        for call in self._launches:
            call(self._stream)

    def whole_backward(self) -> None:
        self._preprocess(self._stream)
        self.workload.zero_dq()
        self.kernels_only()
        self._convert(self._stream)


class Watch:
    """A canary with its events."""

    def __init__(self, canary: Canary, gpu: Gpu) -> None:
        self.name, self.key, self.run = canary.name, canary.key, canary.run
        self.start, self.end = gpu.timing_event(), gpu.timing_event()


class Sampler:
    """Takes the samples of one case. ``case``: of the kernels' names; ``seed``: of the orders."""

    def __init__(
        self,
        case: TimedCase,
        seed: int,
        gpu: Gpu,
        flush: Buffer,
        workload: Workload,
        runs: list[Run],
        watches: list[Watch],
    ) -> None:
        self._case, self._seed, self._stream, self._flush = case, seed, gpu.stream, flush
        self._workload, self._runs, self._watches = workload, runs, watches

    def warm_up(self) -> None:
        """Clocks up, instruction caches and memory touched. Raises CulpritError."""
        for run in self._runs:
            run.kernels_only()
            self._stream.record(run.end)
        self._settle(list(self._runs))

    def sample(self, series: str, number: int) -> list[tuple[Run | Watch, float]]:
        """Block ``number``: every kernel and its seconds. Raises CulpritError if one hangs or faults."""
        # A stream of its own for each block: a session that goes on later draws the same orders.
        rng = np.random.default_rng([self._seed, self._case.n_ctx, self._case.head_dim, number])
        timed: list[Run | Watch] = [*self._runs, *(self._watches if series == "kernel" else [])]
        timed = [timed[index] for index in rng.permutation(len(timed))]
        for entry in timed:
            self._workload.zero_dq()
            self._flush.fill(0, stream=self._stream)
            self._stream.record(entry.start)
            if isinstance(entry, Watch):
                entry.run()
            elif series == "kernel":
                entry.kernels_only()
            else:
                entry.whole_backward()
            self._stream.record(entry.end)
        self._settle(timed)
        # Events tick in half microseconds: more digits say nothing.
        return [(entry, round((entry.end - entry.start) / 1000, 9)) for entry in timed]

    def _settle(self, timed: list[Run | Watch]) -> None:
        if not timed:
            return
        try:
            wait(timed[-1].end, lambda: self._hanging(timed))
        except CulpritError:
            raise
        except Exception as error:  # the context is lost, and with it the knowledge of who did it
            raise CulpritError("unknown", f"a kernel faulted while it was timed: {error}") from error

    def _hanging(self, timed: list[Run | Watch]) -> str:
        """The kernel of a block that does not end: the first whose end was not reached."""
        for entry in timed:
            if not entry.end.is_done:
                if isinstance(entry, Watch):
                    return entry.key
                return exclusion_key(self._case, entry.subject.commit, entry.subject.variant)
        return "unknown"
