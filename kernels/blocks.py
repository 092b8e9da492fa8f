"""The blocks of one case: every kernel once, in an order drawn anew from the recorded seed, so that drift of
clocks and temperature hits all alike.

Before each launch dQ is zeroed and then the L2 flushed, outside the timed region (zeroing after the flush
would leave dQ in the L2). Two series: "kernel" (the variant's own kernels, and the canaries) and "backward"
(preprocess, zeroing, kernels, conversion of dQ: what issue 4717 timed). A block in which the GPU throttled
for heat or by hardware is marked, left out and taken again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.plan import Plan
from kernels.session_file import CaseFile, Subject, exclusion_key

if TYPE_CHECKING:  # so that the order of things is tested without a GPU
    from cuda.core import Buffer

    from kernels.canary import Canary
    from kernels.launch import Gpu
    from kernels.telemetry import Telemetry
    from kernels.workload import Workload

FLUSH_BYTES = 128 * 2**20  # twice the 60 MB L2 of an H200 (50 MB: H100)
KERNEL_DEADLINE_S = 20.0  # the slowest kernel takes 0.2 s; one that takes longer than this hangs
_WRITE_EVERY_S = 10.0
_MAX_ATTEMPTS_SHARE = 2  # throttled blocks are taken again, up to so many times the plan's maximum in all


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


@dataclass
class Ready:
    """A case that can be timed."""

    file: CaseFile
    workload: Workload
    runs: list[Run]


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


class Timing:
    """The blocks of one case."""

    def __init__(
        self,
        plan: Plan,
        gpu: Gpu,
        telemetry: Telemetry,
        flush: Buffer,
        deadline_s: float,
        ready: Ready,
        canaries: list[Canary],
    ) -> None:
        """``deadline_s``: on the monotonic clock; no block starts after it."""
        self.plan, self.file, self.workload, self.runs = plan, ready.file, ready.workload, ready.runs
        self._telemetry, self._flush, self._deadline_s = telemetry, flush, deadline_s
        self._stream = gpu.stream
        self._watches = [Watch(canary, gpu) for canary in canaries if canary.run]
        for canary in canaries:
            self.file.canaries.setdefault(canary.name, {"message": canary.message, "kernel_s": []})
        self._written_s = time.monotonic()

    def run(self) -> None:
        plan, file = self.plan, self.file
        for run in self.runs:  # clocks up, instruction caches and memory touched
            run.kernels_only()
        for series in self._schedule():
            if time.monotonic() > self._deadline_s:
                file.note = f"stopped by the budget of {plan.budget_s:.0f} s"
                break
            self._block(series)
        enough = file.valid("kernel") >= plan.min_blocks
        enough &= file.valid("backward") >= min(plan.backward_blocks, plan.min_blocks)
        file.complete = enough
        if not enough and file.note is None:
            taken, valid = file.taken("kernel"), file.valid("kernel")
            file.status, file.complete = "no_valid_data", True
            file.note = f"the GPU throttled (heat or hardware) in {taken - valid} of {taken} blocks"

    def _schedule(self) -> Iterator[str]:
        """Kernel blocks until enough is known, with the backward blocks spread among the first of them."""
        plan, file = self.plan, self.file
        most = _MAX_ATTEMPTS_SHARE * plan.max_blocks
        while True:
            wants = {
                "kernel": file.valid("kernel") < plan.max_blocks
                and file.taken("kernel") < most
                and not (file.valid("kernel") >= plan.min_blocks and self._is_narrow()),
                "backward": file.valid("backward") < plan.backward_blocks and file.taken("backward") < most,
            }
            if not any(wants.values()):
                return
            for series, wanted in wants.items():
                if wanted:
                    yield series

    def _block(self, series: str) -> None:
        file, case = self.file, self.file.case
        number = len(file.blocks)
        # A stream of its own for each block: a session that goes on later draws the same orders.
        rng = np.random.default_rng([self.plan.seed, case.n_ctx, case.head_dim, number])
        before = self._telemetry.read()
        timed: list[Run | Watch] = [*self.runs, *(self._watches if series == "kernel" else [])]
        timed = [timed[index] for index in rng.permutation(len(timed))]
        for entry in timed:
            self.workload.zero_dq()
            self._flush.fill(0, stream=self._stream)
            self._stream.record(entry.start)
            if isinstance(entry, Watch):
                entry.run()
            elif series == "kernel":
                entry.kernels_only()
            else:
                entry.whole_backward()
            self._stream.record(entry.end)
        wait(timed[-1].end, lambda: self._hanging(timed))
        after = self._telemetry.read()
        for entry in timed:
            duration_s = round((entry.end - entry.start) / 1000, 9)  # events tick in half microseconds
            if isinstance(entry, Watch):
                file.canaries[entry.name]["kernel_s"].append(duration_s)
            else:
                samples = entry.subject.kernel_s if series == "kernel" else entry.subject.backward_s
                samples.append(duration_s)
        valid = not before.invalid_reasons and not after.invalid_reasons
        file.blocks.append(
            {
                "series": series,
                "valid": valid,
                "process": file.process,
                "before": asdict(before),
                "after": asdict(after),
            }
        )
        if time.monotonic() - self._written_s > _WRITE_EVERY_S:
            file.write()
            self._written_s = time.monotonic()

    def _hanging(self, timed: list[Run | Watch]) -> str:
        """The kernel of a block that does not end: the first whose end was not reached."""
        for entry in timed:
            if not entry.end.is_done:
                if isinstance(entry, Watch):
                    return entry.key
                return exclusion_key(self.file.case, entry.subject.commit, entry.subject.variant)
        return "none"

    def _is_narrow(self) -> bool:
        """Whether every ratio to inline_asm of the same commit is known well enough (95 %, normal)."""
        file = self.file
        asm = {
            (s.commit, s.copy): s
            for s in file.subjects
            if s.variant == "inline_asm" and s.shared_with is None
        }
        for subject in file.subjects:
            other = asm.get((subject.commit, subject.copy))
            if not subject.kernel_s or other is None or other is subject or not other.kernel_s:
                continue
            logs = np.log(file.samples(subject, "kernel")) - np.log(file.samples(other, "kernel"))
            if len(logs) < 3:
                return False
            if 1.96 * logs.std(ddof=1) / np.sqrt(len(logs)) > file.plan.target_half_width:
                return False
        return True
