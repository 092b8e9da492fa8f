"""One worker of a session: load, check and time stored kernels side by side in one process.

A block times every kernel once, in an order drawn anew from the recorded seed, so that drift of clocks
and temperature hits all alike. Before each launch dQ is zeroed and then the L2 flushed, outside the timed
region (zeroing after the flush would leave dQ in the L2). Kernels are never timed before their gradients
were checked at the same shape. Two series: "kernel" (the variant's own kernels) and "backward"
(preprocess, zeroing, kernels, conversion of dQ: what issue 4717 timed).
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernels.evidence import atomic_write, read_object, read_record
from kernels.launch import Gpu, LaunchError, LoadedKernel
from kernels.record import SUPPORT
from kernels.telemetry import Telemetry, as_json
from kernels.workload import TimedCase, Workload

SCHEMA = 1
_FLUSH_BYTES = 128 * 2**20  # twice the 60 MB L2 of an H200 (50 MB: H100)
_COPY_BYTES = 256 * 2**20
_KERNEL_DEADLINE_S = 20.0  # the slowest kernel takes 0.2 s; one that takes longer than this hangs
_WRITE_EVERY_S = 10.0


@dataclass(frozen=True)
class Plan:
    """``commits``: [[commit, label], …]. Stop once every candidate's ratio to inline_asm is known to
    ``target_half_width`` (95 %, relative), after at least ``min_blocks``, at most ``max_blocks`` and
    ``budget_s`` seconds in all. ``backward_blocks``: blocks of the second series. ``gpu``: a UUID or None."""

    store: str
    out: str
    target: str
    commits: list[list[str]]
    variants: list[str]
    cases: list[dict[str, Any]]
    seed: int
    min_blocks: int = 8
    max_blocks: int = 20
    backward_blocks: int = 5
    target_half_width: float = 0.002
    budget_s: float = 600.0
    gpu: str | None = None

    def timed_cases(self) -> list[TimedCase]:
        return [TimedCase(**case) for case in self.cases]


@dataclass
class Subject:
    """One (commit, variant) of a case. Subjects of equal identity share one timing: ``shared_with``."""

    commit: str
    label: str
    variant: str
    status: str = "ok"
    message: str | None = None
    identity: list[str] = field(default_factory=list)
    shared_with: list[str] | None = None
    errors: dict[str, float] | None = None
    kernel_s: list[float] = field(default_factory=list)
    backward_s: list[float] = field(default_factory=list)


class CulpritError(RuntimeError):
    """A kernel faulted or hung: this process's context is lost. ``key``: what to leave out next time."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


class Session:
    """One worker process: a GPU, its telemetry, the plan, and the kernels loaded so far."""

    def __init__(self, plan: Plan, excluded: dict[str, str]) -> None:
        self.plan, self.excluded = plan, excluded
        self.gpu = Gpu(plan.gpu)
        self.telemetry = Telemetry(str(self.gpu.device.uuid))
        self.flush = self.gpu.allocate(_FLUSH_BYTES)
        self.copy = [self.gpu.allocate(_COPY_BYTES) for _ in range(2)]
        self.started_s = time.monotonic()
        self._loaded: dict[str, list[LoadedKernel]] = {}

    def left_s(self) -> float:
        return self.plan.budget_s - (time.monotonic() - self.started_s)

    def run_case(self, case: TimedCase) -> None:
        """Measure one case and write its file."""
        path = Path(self.plan.out) / f"{case.slug}.json"
        if _is_complete(path, self.plan):
            return
        started_s = time.monotonic()
        workload = Workload(self.gpu, case, self.plan.seed)
        try:
            subjects = [
                self._subject(case, commit, label, variant)
                for commit, label in self.plan.commits
                for variant in self.plan.variants
            ]
            support = self._support(case)
            result = _Result(self, case, path, subjects, started_s)
            self._prepare(workload, support)
            runs = self._runs(case, workload, support, subjects)
            self._time(case, runs, result)
        finally:
            workload.close()

    def _record(self, case: TimedCase, commit: str, variant: str) -> dict[str, Any] | None:
        folder = Path(self.plan.store) / "records" / self.plan.target.replace(":", "-") / commit
        try:
            return read_record(folder / case.codegen_slug / f"{variant}.json")
        except FileNotFoundError:
            return None

    def _subject(self, case: TimedCase, commit: str, label: str, variant: str) -> Subject:
        subject = Subject(commit, label, variant)
        record = self._record(case, commit, variant)
        key = _key(case, commit, variant)
        if record is None:
            subject.status, subject.message = "not_compiled", "no record in the evidence store"
        elif record["status"] != "ok":
            subject.status, subject.message = record["status"], record["message"]
        elif key in self.excluded:
            subject.status, subject.message = "failed", self.excluded[key]
        else:
            subject.identity = [kernel["identity"] for kernel in record["kernels"]]
        return subject

    def _load(self, record: dict[str, Any]) -> list[LoadedKernel]:
        kernels = []
        for entry in record["kernels"]:
            if entry["identity"] not in self._loaded:
                cubin = read_object(Path(self.plan.store), entry["objects"]["cubin"])
                self._loaded[entry["identity"]] = [LoadedKernel.load(self.gpu, cubin, entry)]
            kernels += self._loaded[entry["identity"]]
        return kernels

    def _support(self, case: TimedCase) -> list[LoadedKernel]:
        """forward, preprocess, convert_dq of the plan's last commit: the same for all subjects, so that
        the second series differs by the backward kernels only."""
        record = self._record(case, self.plan.commits[-1][0], SUPPORT)
        if record is None or record["status"] != "ok":
            raise LaunchError(f"no compiled forward kernel for {case.codegen_slug} in {self.plan.store}")
        return self._load(record)

    def _prepare(self, workload: Workload, support: list[LoadedKernel]) -> None:
        """O and M by the forward kernel, D by preprocess: what every backward reads."""
        for kernel in support[:2]:
            workload.bind(kernel)(self.gpu.stream)
        self.gpu.stream.sync()

    def _runs(
        self, case: TimedCase, workload: Workload, support: list[LoadedKernel], subjects: list[Subject]
    ) -> list[_Run]:
        """One run for each distinct identity, checked; others of the same identity share its timing."""
        preprocess, convert = (workload.bind(kernel) for kernel in support[1:3])
        runs: dict[tuple[str, ...], _Run] = {}
        for subject in subjects:
            if subject.status != "ok":
                continue
            identity = tuple(subject.identity)
            if identity in runs:
                first = runs[identity].subject
                subject.shared_with = [first.commit, first.variant]
                subject.status, subject.message, subject.errors = first.status, first.message, first.errors
                continue
            record = self._record(case, subject.commit, subject.variant)
            if record is None:
                continue
            try:
                launches = [workload.bind(kernel) for kernel in self._load(record)]
            except (LaunchError, ValueError, OSError) as error:
                subject.status, subject.message = "failed", str(error)
                continue
            run = _Run(subject, launches, preprocess, convert, workload, self.gpu)
            runs[identity] = run
            self._check(case, run, record["exact"])
        return [run for run in runs.values() if run.subject.status == "ok"]

    def _check(self, case: TimedCase, run: _Run, exact: bool) -> None:
        """Gradients at the timed shape on poisoned outputs; sets the subject's errors and status."""
        subject = run.subject
        key = _key(case, subject.commit, subject.variant)
        run.workload.poison()
        try:
            run.whole_backward()  # dQ's conversion is checked with it
            self._wait(key)
        except CulpritError:
            raise
        except Exception as error:  # a fault: every later call of this process fails as well
            raise CulpritError(key, f"faulted at {case.slug}: {error}") from error
        subject.errors = run.workload.errors()
        if not run.workload.is_right(subject.errors, exact):
            subject.status = "wrong"
            subject.message = f"wrong gradients: largest relative errors {subject.errors}"

    def _wait(self, key: str) -> None:
        """Wait for the stream, but not for ever."""
        event = self.gpu.stream.record()
        deadline_s = time.monotonic() + _KERNEL_DEADLINE_S
        while not event.is_done:
            if time.monotonic() > deadline_s:
                raise CulpritError(key, f"did not end within {_KERNEL_DEADLINE_S:.0f} s")
            time.sleep(0.0002)

    def _time(self, case: TimedCase, runs: list[_Run], result: _Result) -> None:
        rng = np.random.default_rng([self.plan.seed, case.n_ctx, case.head_dim])
        for run in runs:  # clocks up, instruction caches and memory touched
            run.kernels_only()
        for index, series in _schedule(self.plan):
            if self.left_s() < 0:
                result.note = f"stopped by the budget of {self.plan.budget_s:.0f} s"
                break
            if series == "kernel" and index >= self.plan.min_blocks and result.is_narrow():
                continue
            self._block(series, rng.permutation(len(runs)), runs, result)
        result.write(complete=result.has_enough())

    def _block(self, series: str, order: Any, runs: list[_Run], result: _Result) -> None:
        stream = self.gpu.stream
        before = self.telemetry.read()
        timed = []
        for index in order:
            run = runs[index]
            run.workload.zero_dq()
            self.flush.fill(0, stream=stream)
            stream.record(run.start)
            run.kernels_only() if series == "kernel" else run.whole_backward()
            stream.record(run.end)
            timed.append(run)
        stream.record(result.copy_events[0])
        self.copy[0].copy_to(self.copy[1], stream=stream)
        stream.record(result.copy_events[1])
        self._wait("block")
        after = self.telemetry.read()
        for run in timed:
            samples = run.subject.kernel_s if series == "kernel" else run.subject.backward_s
            samples.append((run.end - run.start) / 1000)
        result.copy_s.append((result.copy_events[1] - result.copy_events[0]) / 1000)
        result.add_block(series, before, after)


class _Run:
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


class _Result:
    """What one case's file says, as it grows."""

    def __init__(
        self, session: Session, case: TimedCase, path: Path, subjects: list[Subject], started_s: float
    ) -> None:
        self.session, self.case, self.path, self.subjects = session, case, path, subjects
        self.started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._started_s = started_s
        self._written_s = started_s
        self.blocks: list[dict[str, Any]] = []
        self.copy_s: list[float] = []
        self.copy_events = [session.gpu.timing_event() for _ in range(2)]
        self.note: str | None = None

    def add_block(self, series: str, before: Any, after: Any) -> None:
        valid = not before.invalid_reasons and not after.invalid_reasons
        self.blocks.append(
            {"series": series, "valid": valid, "before": as_json(before), "after": as_json(after)}
        )
        if time.monotonic() - self._written_s > _WRITE_EVERY_S:
            self.write(complete=False)
            self._written_s = time.monotonic()

    def has_enough(self) -> bool:
        """Whether both series have the blocks that the plan asks for at least."""
        plan = self.session.plan
        wanted = {"kernel": plan.min_blocks, "backward": min(plan.backward_blocks, plan.min_blocks)}
        taken = {name: sum(block["series"] == name for block in self.blocks) for name in wanted}
        return all(taken[name] >= wanted[name] for name in wanted)

    def is_narrow(self) -> bool:
        """Whether every ratio to inline_asm of the same commit is known well enough (95 %, normal)."""
        valid = np.array([b["valid"] for b in self.blocks if b["series"] == "kernel"])
        asm = {s.commit: s for s in self.subjects if s.variant == "inline_asm" and s.kernel_s}
        for subject in self.subjects:
            other = asm.get(subject.commit)
            if not subject.kernel_s or other is None or other is subject:
                continue
            logs = np.log(np.array(subject.kernel_s)[valid]) - np.log(np.array(other.kernel_s)[valid])
            if len(logs) < 3:
                return False
            if 1.96 * logs.std(ddof=1) / np.sqrt(len(logs)) > self.session.plan.target_half_width:
                return False
        return True

    def write(self, complete: bool) -> None:
        document = {
            "schema": SCHEMA,
            "complete": complete,
            "case": asdict(self.case),
            "target": self.session.plan.target,
            "plan": _plan_key(self.session.plan),
            "seed": self.session.plan.seed,
            "device": self.session.telemetry.describe(),
            "started_at": self.started_at,
            "wall_s": time.monotonic() - self._started_s,
            "note": self.note,
            "subjects": [asdict(subject) for subject in self.subjects],
            "copy_s": self.copy_s,
            "blocks": self.blocks,
        }
        atomic_write(self.path, json.dumps(document, allow_nan=True).encode())


def _schedule(plan: Plan) -> Iterator[tuple[int, str]]:
    """Kernel blocks, with the backward blocks spread among the first of them."""
    for index in range(max(plan.max_blocks, plan.backward_blocks)):
        if index < plan.max_blocks:
            yield index, "kernel"
        if index < plan.backward_blocks:
            yield index, "backward"


def _key(case: TimedCase, commit: str, variant: str) -> str:
    return f"{case.slug} {commit} {variant}"


def _plan_key(plan: Plan) -> dict[str, Any]:
    """What a result must share with a plan to count as its own."""
    wanted = ("target", "commits", "variants", "seed", "min_blocks", "max_blocks", "backward_blocks")
    return {name: value for name, value in asdict(plan).items() if name in wanted}


def _is_complete(path: Path, plan: Plan) -> bool:
    try:
        document = json.loads(path.read_bytes())
        return bool(document["complete"]) and document["plan"] == _plan_key(plan)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
