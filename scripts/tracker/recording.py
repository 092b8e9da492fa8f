"""Session files in, asv result files out. A sample that is not there becomes asv's NaN (skipped) or null
(failed), never a zero."""

from __future__ import annotations

import ast
import datetime
import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from asv.results import Results
from asv.runner import BenchmarkResult

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import Suite, write_json
from scripts.tracker.model import Case, Commit
from scripts.tracker.releases import known_releases
from scripts.tracker.results import read_commits, read_variants
from scripts.tracker.store import EvidenceStore, atomic_write

SCHEMA = 2
_SERIES = {"track_kernel": "kernel", "track_backward": "backward"}
CANARIES_BENCHMARK = "controls.Canaries.track_seconds"


class Subject(msgspec.Struct):
    """What a session says of one (commit, variant); see `kernels.session_file.Subject`."""

    commit: str
    label: str
    copy: int
    variant: str
    status: str
    message: str | None
    identity: list[str]
    shared_with: list[str] | None
    kernel_s: list[float]
    backward_s: list[float]


class Reading(msgspec.Struct):
    """What the GPU said; the rest of it stays in the file."""

    power_capped: bool


class Block(msgspec.Struct):
    """One round over all kernels. Not valid: the GPU throttled for heat or by hardware."""

    series: Literal["kernel", "backward"]
    valid: bool
    before: Reading
    after: Reading

    @property
    def is_capped(self) -> bool:
        """Whether the power limit held the clock down: normal under load, so only recorded."""
        return self.before.power_capped or self.after.power_capped


class Canary(msgspec.Struct):
    """Work that no Triton commit can change. ``message``: why it was not timed."""

    message: str | None
    kernel_s: list[float]


class SessionFile(msgspec.Struct):
    """One case of a session; see `kernels.session_file`."""

    schema: int
    complete: bool
    status: Literal["ok", "no_valid_data"]
    note: str | None
    target: str
    case: dict[str, Any]
    device: dict[str, Any]
    started_at: datetime.datetime
    subjects: list[Subject]
    canaries: dict[str, Canary]
    blocks: list[Block]

    def samples(self, subject: Subject, series: str) -> list[float]:
        """Valid samples in block order; of the kernel whose timing it shares, if it shares one."""
        subject = self.base_of(subject)
        return self.valid(subject.kernel_s if series == "kernel" else subject.backward_s, series)

    def valid(self, taken: list[float], series: str) -> list[float]:
        """Those of blocks in which the GPU did not throttle."""
        blocks = [block.valid for block in self.blocks if block.series == series]
        return [s for s, valid in zip(taken, blocks, strict=True) if valid]

    def base_of(self, subject: Subject) -> Subject:
        """Whose timing it is: its own, or that of an equal kernel. Raises ValueError if that is not there."""
        if subject.shared_with is None:
            return subject
        for other in self.subjects:
            if [other.commit, other.variant] == subject.shared_with and other.copy == subject.copy:
                return other
        raise ValueError(f"{subject.variant} shares a timing that is not there")

    def has_series(self, series: str) -> bool:
        """Whether the plan asked for it: a session may leave out the whole backward."""
        return any(block.series == series for block in self.blocks)


@dataclass(frozen=True, slots=True)
class _Key:
    """The parameters of both suites. ``what``: a variant or a canary."""

    what: str
    n_ctx: int
    head_dim: int
    causal: bool
    dtype: str

    def is_of(self, case: dict[str, Any]) -> bool:
        names = ("n_ctx", "head_dim", "causal", "dtype")
        return all(case[name] == getattr(self, name) for name in names)


def read_sessions(folder: Path) -> list[SessionFile]:
    """All case files of a session. Raises TrackerError for one that is damaged or of another device."""
    documents = [_read_session(path) for path in sorted(folder.glob("hd*.json"))]
    if not documents:
        raise TrackerError(f"{folder}: holds no session file (hd*.json)")
    check_one_device(documents, str(folder))
    return documents


def check_one_device(documents: list[SessionFile], where: str) -> None:
    """Raises TrackerError if GPU, driver or limits differ. Cards of one kind count as one device."""
    epochs = {json.dumps({**d.device, "uuid": None}, sort_keys=True) for d in documents}
    if len(epochs) > 1:
        raise TrackerError(f"{where}: sessions of different devices or drivers; take them apart")


def _read_session(path: Path) -> SessionFile:
    try:
        content = json.loads(path.read_text())
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']}, this program reads {SCHEMA}")
        document = msgspec.convert(content, SessionFile)
        series = [block.series for block in document.blocks]
        for subject in document.subjects:
            expected = (len(subject.kernel_s), len(subject.backward_s))
            is_timed = subject.status == "ok" and subject.shared_with is None
            if is_timed and expected != (series.count("kernel"), series.count("backward")):
                raise ValueError(f"{subject.variant} has samples of other blocks")
            if subject.shared_with is not None:
                document.base_of(subject)
        for name, canary in document.canaries.items():
            if canary.kernel_s and len(canary.kernel_s) != series.count("kernel"):
                raise ValueError(f"{name} has samples of other blocks")
    except (OSError, ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise TrackerError(f"{path}: not a session file ({error}); run its plan again") from error
    times = [t for s in document.subjects for t in (*s.kernel_s, *s.backward_s)]
    times += [t for canary in document.canaries.values() for t in canary.kernel_s]
    if not all(0 < t < math.inf for t in times):
        raise TrackerError(f"{path}: holds a time that is not above zero; run its plan again")
    if not document.complete:
        why = document.note or "interrupted"
        raise TrackerError(f"{path}: the session did not finish this case ({why}); run its plan again")
    return document


def machine_name(device: dict[str, Any]) -> str:
    """asv's name for an epoch, like "h200-580.159.04": the GPU's model and the driver."""
    words = str(device["gpu"]).lower().replace("nvidia", "").split()
    name = "-".join([*words, str(device["driver"])])
    return "".join(c if c.isalnum() or c in ".-" else "-" for c in name)


def record_sessions(
    documents: list[SessionFile], suites: list[Suite], evidence: EvidenceStore, history: Path, results: Path
) -> tuple[str, int]:
    """Write one asv result file a commit into ``results``, with what asv needs to publish it.

    ``suites``: the timed one first. ``history``: the results folder whose commits.json names the commits.
    Returns the machine and how many files were written. Raises TrackerError if a timed kernel is not the one
    that ``evidence`` holds now: the results get the version of today's sources.
    """
    machine = machine_name(documents[0].device)
    device = documents[0].device
    entry = {"machine": machine, "gpu": device["gpu"], "driver": device["driver"],
             "power_limit_w": str(device["power_limit_w"]), "os": "Linux", "arch": "x86_64",
             "cpu": "any", "num_cpu": "any", "ram": "any"}  # fmt: skip
    known = read_commits(history)
    commits = {s.commit: s.label for d in documents for s in d.subjects}
    if twice := {s.label for d in documents for s in d.subjects if s.copy > 1}:
        raise TrackerError(
            f"{', '.join(sorted(twice))}: one commit timed twice (A/A) is for scripts.noise only"
        )
    dates = _dates(commits, known, history)
    for document in documents:
        _check_identities(document, evidence)
    for commit, date in dates.items():
        noon = datetime.datetime.combine(date, datetime.time(12), datetime.UTC)
        row = Results({**entry, "python": "3"}, {}, commit, int(noon.timestamp() * 1000), "3", "session", {})
        for suite in suites:
            for name in suite.benchmarks:
                _add_benchmark(row, name, suite, documents, commit)
        row.save(str(results))
    write_json(results / machine / "machine.json", {**entry, "version": 1})
    write_json(results / "flops.json", suites[0].flops)
    write_json(results / "commits.json", known)
    write_json(results / "variants.json", read_variants(history))
    benchmarks = {name: _metadata(name, suite) for suite in suites for name in suite.benchmarks}
    atomic_write(results / "benchmarks.json", json.dumps({**benchmarks, "version": 2}, indent=1).encode())
    return machine, len(commits)


def _dates(commits: dict[str, str], known: list[Commit], history: Path) -> dict[str, datetime.date]:
    """When each commit was released. By the history's labels: a session of asv's has labels of its own."""
    labels = {c.commit: c.label for c in known}
    if missing := [label for commit, label in commits.items() if commit not in labels]:
        raise TrackerError(f"{history}/commits.json does not have {', '.join(missing)}: run make track first")
    releases = {release.version: release.date for release in known_releases()}
    if undated := [labels[commit] for commit in commits if labels[commit] not in releases]:
        raise TrackerError(
            f"{', '.join(undated)}: not in scripts/releases.toml, so without a date; add it there"
        )
    return {commit: releases[labels[commit]] for commit in commits}


def _check_identities(document: SessionFile, evidence: EvidenceStore) -> None:
    case = Case(document.case["head_dim"], document.case["causal"], document.case["dtype"])
    for subject in document.subjects:
        record = evidence.load(document.target, subject.commit, case, subject.variant)
        if subject.status == "ok" and (record is None or list(record.identity) != subject.identity):
            raise TrackerError(
                f"{subject.variant} at {subject.label}: what the session timed is not in {evidence.root}: "
                "run make track, then the session again"
            )


def _metadata(name: str, suite: Suite) -> dict[str, Any]:
    """What asv publish needs to know of a benchmark."""
    return {"name": name, "code": "", "type": "track", "unit": "seconds", "params": suite.params,
            "param_names": suite.param_names, "version": suite.version, "timeout": 1800}  # fmt: skip


def _add_benchmark(row: Results, name: str, suite: Suite, documents: list[SessionFile], commit: str) -> None:
    keys = [_Key(*map(ast.literal_eval, words)) for words in itertools.product(*suite.params)]
    if name == CANARIES_BENCHMARK:
        values = [_canary(documents, key) for key in keys]
    else:
        series = _SERIES[name.rpartition(".")[2]]
        values = [_value(documents, commit, key, series) for key in keys]
    result = BenchmarkResult(
        result=[0.0 if isinstance(value, list) else value for value in values],
        samples=[value if isinstance(value, list) else None for value in values],
        number=[1 if isinstance(value, list) else None for value in values],
        errcode=0,
        stderr="",
        profile=None,
    )
    started_at = min(d.started_at for d in documents)
    benchmark = {"name": name, "version": suite.version, "params": suite.params}
    row.add_result(benchmark, result, started_at=started_at, record_samples=True)


def _value(documents: list[SessionFile], commit: str, key: _Key, series: str) -> list[float] | float | None:
    """Samples; NaN where the operation is not there or no plan asked for it; None where it failed."""
    for document in documents:
        if not key.is_of(document.case):
            continue
        for subject in document.subjects:
            if (subject.commit, subject.variant) != (commit, key.what):
                continue
            if subject.status == "unsupported" or not document.has_series(series):
                return float("nan")
            if document.status == "no_valid_data":
                return None
            return document.samples(subject, series) or None if subject.status == "ok" else None
    return float("nan")


def _canary(documents: list[SessionFile], key: _Key) -> list[float] | float | None:
    """The same for all commits of a session: they share its blocks. NaN where it was not timed."""
    for document in documents:
        if key.is_of(document.case) and key.what in document.canaries:
            taken = document.canaries[key.what].kernel_s
            if not taken:  # no torch, or torch cannot
                return float("nan")
            return None if document.status == "no_valid_data" else document.valid(taken, "kernel") or None
    return float("nan")
