"""Session files in, asv result files out. A sample that is not there becomes asv's NaN (skipped) or null
(failed), never a zero."""

from __future__ import annotations

import ast
import datetime
import hashlib
import itertools
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asv.results import Results
from asv.runner import BenchmarkResult

from scripts.tracker.errors import TrackerError, printable
from scripts.tracker.harness import Suite, describe_suite, write_json
from scripts.tracker.judge import TIMED_TARGET
from scripts.tracker.model import Case, Commit
from scripts.tracker.releases import known_releases
from scripts.tracker.results import read_commit_results, read_commits, read_variants
from scripts.tracker.session_files import SessionFile, TimedCase, read_sessions
from scripts.tracker.store import EvidenceStore, atomic_write, read_regular
from scripts.tracker.timed_results import CANARY_BENCHMARK
from scripts.tracker.timing_run import SUITES
from scripts.tracker.workspace import Workspace

_SERIES = {"track_kernel": "kernel", "track_backward": "backward"}


@dataclass(frozen=True, slots=True)
class _Key:
    """The parameters of both suites. ``what``: a variant or a canary."""

    what: str
    n_ctx: int
    head_dim: int
    causal: bool
    dtype: str

    def is_of(self, case: TimedCase) -> bool:
        names = ("n_ctx", "head_dim", "causal", "dtype")
        return all(getattr(case, name) == getattr(self, name) for name in names)


def record_sessions(
    documents: list[SessionFile], suites: list[Suite], evidence: EvidenceStore, history: Path, results: Path
) -> tuple[str, int]:
    """Write one asv result file a release into ``results``, with what asv needs to publish it.

    ``suites``: the timed one first. ``history``: the results folder whose commits.json names the commits.
    Returns the machine and how many files were written. Raises TrackerError if a timed kernel is not the one
    that ``evidence`` holds now: the results get the version of today's sources.
    """
    known = read_commits(history)
    commits = {s.commit: s.label for d in documents for s in d.subjects}
    _refuse_copies(documents)
    noon = datetime.time(12)
    dates_ms = {
        commit: int(datetime.datetime.combine(date, noon, datetime.UTC).timestamp() * 1000)
        for commit, date in _dates(commits, known, history).items()
    }
    machine = _write(documents, suites, evidence, results, dates_ms, "session")
    write_json(results / "commits.json", known)
    write_json(results / "variants.json", read_variants(history))
    return machine, len(commits)


def record_change(
    documents: list[SessionFile], suites: list[Suite], evidence: EvidenceStore, results: Path
) -> tuple[str, int]:
    """The same of a session of one followed commit, beside its parent: a file for each of the two. A commit
    has a file a session, as it stands in its own and in that of the change after it; the anchor's samples
    stay in the session's files. ``results``: where the commits' own results are."""
    _refuse_copies(documents)
    commits = list(dict.fromkeys(s.commit for d in documents for s in d.subjects))[-2:]
    dates_ms = {commit: _date_ms(results, commit) for commit in commits}
    words = [*commits, min(d.started_at for d in documents).isoformat()]
    name = hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]
    return _write(documents, suites, evidence, results, dates_ms, f"session-{name}"), len(commits)


def _refuse_copies(documents: list[SessionFile]) -> None:
    if twice := {s.label for d in documents for s in d.subjects if s.copy > 1}:
        raise TrackerError(
            f"{', '.join(sorted(twice))}: one commit timed twice (A/A) is for scripts.noise only"
        )


def _write(
    documents: list[SessionFile],
    suites: list[Suite],
    evidence: EvidenceStore,
    results: Path,
    dates_ms: dict[str, int],
    environment: str,
) -> str:
    """A file for each commit of ``dates_ms``, and what asv must know of machine and benchmarks."""
    device = documents[0].device
    machine = device.machine
    entry = {"machine": machine, "gpu": device.gpu, "driver": device.driver,
             "power_limit_w": str(device.power_limit_w), "os": "Linux", "arch": "x86_64",
             "cpu": "any", "num_cpu": "any", "ram": "any"}  # fmt: skip
    for document in documents:
        _check_identities(document, evidence)
    for commit, date_ms in dates_ms.items():
        row = Results({**entry, "python": "3"}, {}, commit, date_ms, "3", environment, {})
        for suite in suites:
            for name in suite.benchmarks:
                _add_benchmark(row, name, suite, documents, commit)
        with (
            tempfile.TemporaryDirectory() as staging
        ):  # asv writes in place: a full disk would cut what is there
            row.save(staging)
            for written in Path(staging).rglob("*.json"):
                atomic_write(results / written.relative_to(staging), written.read_bytes())
    write_json(results / machine / "machine.json", {**entry, "version": 1})
    write_json(results / "flops.json", suites[0].flops)
    benchmarks = {name: _metadata(name, suite) for suite in suites for name in suite.benchmarks}
    content = json.dumps({**_listed(results), **benchmarks, "version": 2}, indent=1)
    atomic_write(results / "benchmarks.json", content.encode())
    return machine


def _listed(results: Path) -> dict[str, Any]:
    """What asv wrote of the other benchmarks of this folder: publish shows none that is not listed. A damaged
    list is made anew: asv writes its part with the next commit."""
    try:
        return dict(json.loads(read_regular(results / "benchmarks.json")))
    except (OSError, ValueError, TypeError):
        return {}


def _date_ms(results: Path, commit: str) -> int:
    """Of a followed commit, as asv had it when its code was measured."""
    for path in sorted(results.glob(f"*/{commit[:8]}-*.json")):
        found = read_commit_results(path)
        if found.commit == commit and found.date_ms is not None:
            return found.date_ms
    raise TrackerError(f"{commit[:10]} is not measured in {results}: make follow measures it first")


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
    case = Case(document.case.head_dim, document.case.causal, document.case.dtype)
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
    if name == CANARY_BENCHMARK:
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


def record_folder(workspace: Workspace, folder: Path, results: Path) -> str:
    """Session files into asv results; says what was written."""
    suites = [describe_suite(workspace.root, module, TIMED_TARGET) for module in SUITES]
    documents = read_sessions(folder)
    machine, commits = record_sessions(documents, suites, workspace.evidence, workspace.results, results)
    return in_words(results / machine, commits, documents)


def in_words(results: Path, commits: int, documents: list[SessionFile]) -> str:
    """What was recorded, and what could not be timed."""
    lines = [f"{results}: {commits} commits, {len(documents)} cases"]
    lines += [
        f"no valid data: {d.case.head_dim}, {d.case.n_ctx}: {d.note}" for d in documents if d.status != "ok"
    ]
    bad = {(s.variant, s.label, s.status, s.message) for d in documents for s in d.subjects
           if s.status in ("failed", "wrong", "not_compiled")}  # fmt: skip
    lines += [
        f"{status}: {variant} at {label}: {message}"
        for variant, label, status, message in sorted(bad, key=str)
    ]
    return printable("\n".join(lines))
