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
from scripts.tracker.model import Case
from scripts.tracker.releases import known_releases
from scripts.tracker.results import read_commits, read_variants
from scripts.tracker.store import EvidenceStore, atomic_write

_SERIES = {"track_kernel": "kernel", "track_backward": "backward"}


class Subject(msgspec.Struct):
    """What a session says of one (commit, variant); see `kernels.interleave.Subject`."""

    commit: str
    label: str
    variant: str
    status: str
    message: str | None
    identity: list[str]
    shared_with: list[str] | None
    kernel_s: list[float]
    backward_s: list[float]


class Block(msgspec.Struct):
    """One round over all kernels. Not valid: the GPU throttled for heat or by hardware."""

    series: Literal["kernel", "backward"]
    valid: bool


class SessionFile(msgspec.Struct):
    """One case of a session."""

    schema: int
    complete: bool
    target: str
    case: dict[str, Any]
    device: dict[str, Any]
    started_at: datetime.datetime
    subjects: list[Subject]
    blocks: list[Block]

    def samples(self, subject: Subject, series: str) -> list[float]:
        """Valid samples in block order; of the kernel whose timing it shares, if it shares one."""
        if subject.shared_with is not None:
            subject = self._subject(*subject.shared_with)
        taken = subject.kernel_s if series == "kernel" else subject.backward_s
        blocks = [block.valid for block in self.blocks if block.series == series]
        return [s for s, valid in zip(taken, blocks, strict=True) if valid]

    def _subject(self, commit: str, variant: str) -> Subject:
        return next(s for s in self.subjects if (s.commit, s.variant) == (commit, variant))


@dataclass(frozen=True, slots=True)
class _Key:
    variant: str
    n_ctx: int
    head_dim: int
    causal: bool
    dtype: str

    def is_of(self, case: dict[str, Any]) -> bool:
        names = ("n_ctx", "head_dim", "causal", "dtype")
        return all(case[name] == getattr(self, name) for name in names)


def read_sessions(folder: Path) -> list[SessionFile]:
    """All case files of a session. Raises TrackerError for one that is damaged or of another device."""
    documents = []
    for path in sorted(folder.glob("hd*.json")):
        try:
            document = msgspec.convert(json.loads(path.read_text()), SessionFile)
        except (OSError, ValueError, msgspec.ValidationError) as error:
            raise TrackerError(f"{path}: not a session file ({error}); run its plan again") from error
        times = [t for s in document.subjects for t in (*s.kernel_s, *s.backward_s)]
        if not all(0 < t < math.inf for t in times):
            raise TrackerError(f"{path}: holds a time that is not above zero; run its plan again")
        if not document.complete:
            raise TrackerError(f"{path}: the session did not finish this case; run its plan again")
        documents.append(document)
    if not documents:
        raise TrackerError(f"{folder}: holds no session file (hd*.json)")
    if len({json.dumps(d.device, sort_keys=True) for d in documents}) > 1:
        raise TrackerError(f"{folder}: sessions of different devices or drivers; record them apart")
    return documents


def record_sessions(
    documents: list[SessionFile],
    suite: Suite,
    evidence: EvidenceStore,
    history: Path,
    results: Path,
    machine: str,
) -> int:
    """Write one asv result file a commit into ``results``, with what asv needs to publish it.

    ``history``: the results folder whose commits.json names the commits. Returns how many were written.
    Raises TrackerError if a timed kernel is not the one that ``evidence`` holds now: the results get the
    version of today's sources.
    """
    device = documents[0].device
    entry = {"machine": machine, "gpu": device["gpu"], "driver": device["driver"],
             "power_limit_w": str(device["power_limit_w"]), "os": "Linux", "arch": "x86_64",
             "cpu": "any", "num_cpu": "any", "ram": "any"}  # fmt: skip
    known = read_commits(history)
    dates = {release.version: release.date for release in known_releases()}
    commits = dict.fromkeys((s.commit, s.label) for d in documents for s in d.subjects)
    if missing := [label for commit, label in commits if commit not in {c.commit for c in known}]:
        raise TrackerError(f"{history}/commits.json does not have {', '.join(missing)}: run make track first")
    for document in documents:
        _check_identities(document, evidence)
    for commit, label in commits:
        noon = datetime.datetime.combine(dates[label], datetime.time(12), datetime.UTC)
        row = Results({**entry, "python": "3"}, {}, commit, int(noon.timestamp() * 1000), "3", "session", {})
        for name in suite.benchmarks:
            _add_benchmark(row, name, suite, documents, commit)
        row.save(str(results))
    write_json(results / machine / "machine.json", {**entry, "version": 1})
    write_json(results / "flops.json", suite.flops)
    write_json(results / "commits.json", known)
    write_json(results / "variants.json", read_variants(history))
    benchmarks = {name: _metadata(name, suite) for name in suite.benchmarks}
    atomic_write(results / "benchmarks.json", json.dumps({**benchmarks, "version": 2}, indent=1).encode())
    return len(commits)


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
    series = _SERIES[name.rpartition(".")[2]]
    keys = [_Key(*map(ast.literal_eval, words)) for words in itertools.product(*suite.params)]
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
            if (subject.commit, subject.variant) != (commit, key.variant):
                continue
            if subject.status == "unsupported":
                return float("nan")
            return document.samples(subject, series) or None if subject.status == "ok" else None
    return float("nan")
