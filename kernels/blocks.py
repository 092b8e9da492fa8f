"""How many blocks of a case are taken, and which count: until the ratios are known well enough, within the
plan's bounds and budget. A block in which the GPU throttled for heat or by hardware is marked, left out and
taken again; a case with too many of them has no valid data.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.plan import Plan
from kernels.sampling import Run, Sampler, Watch
from kernels.session_file import CaseFile

if TYPE_CHECKING:  # so that the order of things is tested without a GPU
    from cuda.core import Buffer

    from kernels.canary import Canary
    from kernels.launch import Gpu
    from kernels.telemetry import Telemetry
    from kernels.workload import Workload

_WRITE_EVERY_S = 10.0
_MAX_ATTEMPTS_SHARE = 2  # throttled blocks are taken again, up to so many times the plan's maximum in all


@dataclass
class Ready:
    """A case that can be timed."""

    file: CaseFile
    workload: Workload
    runs: list[Run]


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
        self.plan, self.file = plan, ready.file
        self._telemetry, self._deadline_s = telemetry, deadline_s
        watches = [Watch(canary, gpu) for canary in canaries if canary.run]
        for canary in canaries:
            self.file.canaries.setdefault(canary.name, {"message": canary.message, "kernel_s": []})
        self._sampler = Sampler(ready.file.case, plan.seed, gpu, flush, ready.workload, ready.runs, watches)
        self._written_s = time.monotonic()

    def run(self) -> None:
        """Raises CulpritError; what was measured before is in the file."""
        plan, file = self.plan, self.file
        self._sampler.warm_up()
        for series in self._schedule():
            if time.monotonic() > self._deadline_s:
                file.note = "stopped by the budget; the same plan goes on from here"
                break
            self._block(series)
        wanted = {"kernel": plan.min_blocks, "backward": min(plan.backward_blocks, plan.min_blocks)}
        short = [series for series, least in wanted.items() if file.valid(series) < least]
        file.complete = not short
        if short and file.note is None:
            taken, valid = file.taken(short[0]), file.valid(short[0])
            file.status, file.complete = "no_valid_data", True
            file.note = (
                f"the GPU throttled (heat or hardware) in {taken - valid} of {taken} {short[0]} blocks"
            )

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
        file = self.file
        before = self._telemetry.read()
        samples = self._sampler.sample(series, len(file.blocks))
        after = self._telemetry.read()
        for entry, duration_s in samples:
            if isinstance(entry, Watch):
                file.canaries[entry.name]["kernel_s"].append(duration_s)
            else:
                of = entry.subject
                (of.kernel_s if series == "kernel" else of.backward_s).append(duration_s)
        file.blocks.append(
            {
                "series": series,
                "valid": not before.invalid_reasons and not after.invalid_reasons,
                "process": file.process,
                "before": asdict(before),
                "after": asdict(after),
            }
        )
        if time.monotonic() - self._written_s > _WRITE_EVERY_S:
            file.write()
            self._written_s = time.monotonic()

    def _is_narrow(self) -> bool:
        """Whether every ratio to inline_asm of the same commit is known well enough (95 %, normal)."""
        file = self.file
        bases = {s.key: file.base_of(s) for s in file.subjects if s.status == "ok"}
        for (commit, copy, _), subject in bases.items():
            asm = bases.get((commit, copy, "inline_asm"))
            if asm is None or asm is subject:
                continue
            logs = np.log(file.samples(subject, "kernel")) - np.log(file.samples(asm, "kernel"))
            if len(logs) < 3 or 1.96 * logs.std(ddof=1) / np.sqrt(len(logs)) > self.plan.target_half_width:
                return False
        return True
