"""What a GPU machine hands in: result files of timed suites and the files of its sessions. Two of them are
ranked by what they hold, so that the order of merging does not matter. Pure, but for reading."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import Suite
from scripts.tracker.judge import TIMED_TARGET
from scripts.tracker.model import MeasurementStatus, TimingMeasurement
from scripts.tracker.results import CODEGEN_BENCHMARK, CommitResults
from scripts.tracker.session_files import SessionFile, parse_session
from scripts.tracker.store import EvidenceStore
from scripts.tracker.timed_results import canary_measurements, timing_measurements

TIMED_MODULES = ("benchmarks.attention_backward", "benchmarks.controls")


def is_timed(results: CommitResults) -> bool:
    """Whether a file is of a GPU machine: it has nothing about code."""
    return not any(name.startswith(CODEGEN_BENCHMARK) for name in results.benchmarks)


def check_timed(results: CommitResults, suites: Sequence[Suite], store: EvidenceStore) -> None:
    """Raises TrackerError unless it says something about today's kernels, and the store has them: a time of a
    kernel that nobody compiled can be compared with nothing."""
    kernels = {name: _kernels(suite.version) for suite in suites for name in suite.benchmarks}
    if not results.benchmarks:
        raise TrackerError("no benchmark in it")
    for name, row in results.benchmarks.items():
        if _kernels(row.version) != kernels.get(name):
            raise TrackerError(f"{name:.80}: not of today's suites, or of other kernels")
    timed = [t for t in timing_measurements(results) if t.status is MeasurementStatus.OK]
    for t in timed:
        record = store.load(TIMED_TARGET, t.commit, t.case, t.variant)
        if record is None or record.status != "ok":
            raise TrackerError(f"it times {t.variant} ({t.case}), which is not compiled here")


def rank(results: CommitResults, suites: Sequence[Suite], path: Path) -> tuple[bool, int, int, str]:
    """Higher is kept: by today's method, then more that is measured, then the later session, as
    `scripts.time_commits` writes over an earlier one. The last is for equals alone."""
    methods = {suite.version for suite in suites}
    today = all(row.version in methods for row in results.benchmarks.values())
    measured: list[TimingMeasurement] = timing_measurements(results) + canary_measurements(results)
    starts = [row.started_at for row in results.benchmarks.values() if row.started_at is not None]
    count = sum(t.status is MeasurementStatus.OK for t in measured)
    return today, count, max(starts, default=0), _digest(path)


def whole_session(path: Path) -> SessionFile | None:
    """None for a case that was interrupted: its machine goes on with it. Raises TrackerError for damage."""
    session = parse_session(path)
    return session if session.complete else None


def session_rank(session: SessionFile, path: Path) -> tuple[float, str]:
    """Higher is kept: the later one."""
    return session.started_at.timestamp(), _digest(path)


def _kernels(version: str) -> str:
    """Of "KERNELS.METHOD", see `kernels.fingerprint`."""
    return version.partition(".")[0]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
