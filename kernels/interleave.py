"""One worker of a session: load and check the stored kernels of every case, then time them side by side.

Kernels are never timed before their gradients were checked at the same shape.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.blocks import Ready, Timing
from kernels.canary import Canaries
from kernels.evidence import read_object
from kernels.launch import Gpu, LaunchError, LoadedKernel, OutOfMemoryError
from kernels.plan import Plan, TimedCase
from kernels.record import SUPPORT
from kernels.sampling import FLUSH_BYTES, CulpritError, Run, wait
from kernels.session_file import (
    CaseFile,
    Stopwatch,
    Subject,
    exclusion_key,
    is_complete,
    record_of,
    subjects_of,
)
from kernels.telemetry import Telemetry
from kernels.workload import Workload


@dataclass
class _Loaded:
    """A case whose kernels are still to be checked."""

    file: CaseFile
    workload: Workload
    support: list[LoadedKernel]


class Session:
    """One worker process: a GPU, its telemetry, the plan, and the kernels loaded so far."""

    def __init__(self, plan: Plan, excluded: dict[str, str]) -> None:
        self.plan, self.excluded = plan, excluded
        self._deadline_s = time.monotonic() + plan.budget_s
        self.gpu = Gpu(plan.gpus[0])
        self.canaries = Canaries(self.gpu, plan.canaries)
        self.telemetry = Telemetry(plan.gpus[0])
        self.device = self.telemetry.describe()
        self.flush = self.gpu.allocate(FLUSH_BYTES)
        self._loaded: dict[tuple[str, int], LoadedKernel] = {}

    def run(self, cases: list[TimedCase]) -> list[str]:
        """Measure cases, each into its file; what was measured before is kept. Returns what went wrong.

        All are prepared and checked before the first is timed: torch is imported meanwhile, and no thread
        disturbs the launches. If they do not fit into the GPU's memory together, they go in groups.
        """
        problems: list[str] = []
        waiting = [case for case in cases if not self._is_done(case)]
        while waiting:
            problems += self._time_all(self._prepare_group(waiting, problems))
        return problems

    def _prepare_group(self, waiting: list[TimedCase], problems: list[str]) -> list[Ready]:
        """As many cases as fit into memory, taken from the front of ``waiting``, with checked kernels."""
        loaded: list[_Loaded] = []
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # references: numpy lets go of Python's lock
            while waiting:
                try:
                    loaded.append(self._load_case(waiting[0], pool))
                except (LaunchError, ValueError, OSError) as error:
                    if loaded and isinstance(error, OutOfMemoryError):
                        break  # again when these are done
                    problems.append(f"{waiting[0].slug}: {error}")
                waiting.pop(0)
            ready = []
            for entry in loaded:
                try:
                    ready.append(self._check_case(entry))
                except (LaunchError, ValueError, OSError) as error:
                    problems.append(f"{entry.file.case.slug}: {error}")
                    entry.workload.close()
        return ready

    def _is_done(self, case: TimedCase) -> bool:
        return is_complete(self._path(case), self.plan, case, self.device)

    def _path(self, case: TimedCase) -> Path:
        return Path(self.plan.out) / f"{case.slug}.json"

    def _load_case(self, case: TimedCase, pool: ThreadPoolExecutor) -> _Loaded:
        """Inputs on the GPU, and their gradients on the way."""
        subjects = subjects_of(self.plan, case, self.excluded)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        file = CaseFile(self._path(case), self.plan, case, self.device, subjects, now)
        watch = Stopwatch(file.phases_s)
        workload = Workload(self.gpu, case, self.plan.seed)
        try:
            support = self._support(case)
            for kernel in support[:2]:  # O and M by the forward kernel, D by preprocess: what backward reads
                workload.bind(kernel)(self.gpu.stream)
            workload.expect(pool)
        except BaseException:
            workload.close()
            raise
        watch.lap("prepare")
        return _Loaded(file, workload, support)

    def _check_case(self, loaded: _Loaded) -> Ready:
        watch = Stopwatch(loaded.file.phases_s)
        runs = self._runs(loaded.file.case, loaded.workload, loaded.support, loaded.file.subjects)
        watch.lap("check")
        return Ready(loaded.file, loaded.workload, runs)

    def _time_all(self, ready: list[Ready]) -> list[str]:
        problems = []
        try:
            for entry in ready:
                try:
                    self._time(entry)
                    if not entry.file.complete or entry.file.status != "ok":
                        problems.append(f"{entry.file.case.slug}: {entry.file.note}")
                except (LaunchError, ValueError, OSError) as error:
                    problems.append(f"{entry.file.case.slug}: {error}")
        finally:
            for entry in ready:
                entry.workload.close()
        return problems

    def _time(self, ready: Ready) -> None:
        file = ready.file
        if not ready.runs:
            file.complete, file.note = True, "nothing to time: no kernel is there and right"
            file.write()
            return
        file.resume()
        watch = Stopwatch(file.phases_s)
        canaries = self.canaries.of_case(file.case, self.excluded)
        file.software = _versions()
        whole = file.settle_canaries({c.name: c.message for c in canaries})
        canaries = [canary for canary in canaries if canary.name in whole]
        watch.lap("canaries")
        try:
            Timing(self.plan, self.gpu, self.telemetry, self.flush, self._deadline_s, ready, canaries).run()
        finally:
            watch.lap("time")
            if file.blocks:
                file.write()  # whatever happened: a start of the same plan goes on from here

    def _load(self, record: dict[str, Any], copy: int) -> list[LoadedKernel]:
        kernels = []
        for entry in record["kernels"]:
            key = (entry["identity"], copy)
            if key not in self._loaded:
                cubin = read_object(Path(self.plan.store), entry["objects"]["cubin"])
                self._loaded[key] = LoadedKernel.load(self.gpu, cubin, entry)
            kernels.append(self._loaded[key])
        return kernels

    def _support(self, case: TimedCase) -> list[LoadedKernel]:
        """forward, preprocess, convert_dq of the plan's last commit: the same for all subjects, so that
        the second series differs by the backward kernels only."""
        record = record_of(self.plan, case, self.plan.commits[-1][0], SUPPORT)
        if record is None or record["status"] != "ok":
            raise LaunchError(f"no compiled forward kernel for {case.codegen_slug} in {self.plan.store}")
        return self._load(record, 1)

    def _runs(
        self, case: TimedCase, workload: Workload, support: list[LoadedKernel], subjects: list[Subject]
    ) -> list[Run]:
        """One run for each distinct identity, checked; others of the same identity share its timing."""
        preprocess, convert = (workload.bind(kernel) for kernel in support[1:3])
        runs: dict[tuple[Any, ...], Run] = {}
        for subject in subjects:
            if subject.status != "ok":
                continue
            identity = (*subject.identity, subject.copy)
            if identity in runs:
                first = runs[identity].subject
                subject.shared_with = [first.commit, first.variant]
                subject.status, subject.message, subject.errors = first.status, first.message, first.errors
                continue
            record = record_of(self.plan, case, subject.commit, subject.variant)
            if record is None:
                subject.status, subject.message = "not_compiled", "its record is gone from the evidence store"
                continue
            try:
                launches = [workload.bind(kernel) for kernel in self._load(record, subject.copy)]
            except (LaunchError, ValueError, OSError) as error:
                subject.status, subject.message = "failed", str(error)
                continue
            run = Run(subject, launches, preprocess, convert, workload, self.gpu)
            runs[identity] = run
            self._check(case, run, record["exact"])
        return [run for run in runs.values() if run.subject.status == "ok"]

    def _check(self, case: TimedCase, run: Run, exact: bool) -> None:
        """Gradients at the timed shape on poisoned outputs; sets the subject's errors and status."""
        subject = run.subject
        key = exclusion_key(case, subject.commit, subject.variant)
        run.workload.poison()
        try:
            run.whole_backward()  # dQ's conversion is checked with it
            wait(self.gpu.stream.record(), lambda: key)
        except CulpritError:
            raise
        except Exception as error:  # a fault: every later call of this process fails as well
            raise CulpritError(key, f"faulted at {case.slug}: {error}") from error
        subject.errors = run.workload.errors()
        if not run.workload.is_right(subject.errors, exact):
            subject.status = "wrong"
            subject.message = f"wrong gradients: largest relative errors {subject.errors}"


def _versions() -> dict[str, str]:
    """Of the packages that have a part in the samples, torch only if it was imported."""
    names = ["cuda-core", "cuda-bindings", "nvidia-ml-py", *(["torch"] if "torch" in sys.modules else [])]
    found = {name: list(importlib.metadata.distributions(name=name)) for name in names}
    return {name: str(d[0].version) for name, d in found.items() if d}
