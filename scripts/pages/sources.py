"""What the site shows beyond the history: the whole backward, telemetry, commits that need no measuring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scripts.pages.paths import is_release
from scripts.pages.telemetry import TelemetryFiles, read_telemetry
from scripts.tracker.errors import TrackerError
from scripts.tracker.following import NOT_APPLICABLE_FILE
from scripts.tracker.history import LandedCommit
from scripts.tracker.measured import History
from scripts.tracker.results import CommitResults, read_results
from scripts.tracker.store import read_regular
from scripts.tracker.tflops import Issue, medians_s, read_issue
from scripts.tracker.timed_results import BACKWARD_BENCHMARK
from scripts.tracker.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Sources:
    """``backward``: medians in seconds of the whole backward by (commit, variant, n_ctx, head_dim), see
    `tflops.medians_s`. ``not_applicable``: commits of main that cannot change code for the target, with the
    areas that they touch. ``landed``: commits of main as Triton's history tells them. ``text``: a stage's
    text by its digest, None where the store cannot give it."""

    issue: Issue
    backward: dict[tuple[str, str, int, int], float] = field(default_factory=dict)
    telemetry: TelemetryFiles = field(default_factory=dict)
    not_applicable: dict[str, tuple[str, ...]] = field(default_factory=dict)
    landed: dict[str, LandedCommit] = field(default_factory=dict)
    text: Callable[[str], str | None] = lambda digest: None


class _NotApplicable(msgspec.Struct):
    areas: tuple[str, ...]


def read_sources(workspace: Workspace, history: History) -> Sources:
    """What cannot be read becomes a problem of the history, and is said on the page."""
    telemetry, problems = read_telemetry((workspace.sessions, workspace.recorded_sessions))
    history.problems += problems
    return Sources(
        issue=read_issue(),
        backward=_backward(workspace, history),
        telemetry=telemetry,
        not_applicable=_not_applicable(workspace, history),
        landed=_landed(history),
        text=lambda digest: _text(digest, history),
    )


def _backward(workspace: Workspace, history: History) -> dict[tuple[str, str, int, int], float]:
    """Of the same method and kernels as the time that is judged; a file that is damaged was told already."""
    versions = {t.version for t in history.timings}
    found: dict[tuple[str, str, int, int], float] = {}
    for root in (workspace.results, workspace.recorded):
        for result in read_results(root)[0]:
            row = result.benchmarks.get(BACKWARD_BENCHMARK)
            if row is not None and row.version in versions:
                found = _medians(result, history) | found
    return found


def _medians(result: CommitResults, history: History) -> dict[tuple[str, str, int, int], float]:
    try:
        return medians_s([result], BACKWARD_BENCHMARK)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        history.problems.append(
            TrackerError(f"{result.path}: the whole backward's parameters are not the suite's ({error})")
        )
        return {}


def _not_applicable(workspace: Workspace, history: History) -> dict[str, tuple[str, ...]]:
    path = workspace.results / NOT_APPLICABLE_FILE
    try:
        found: Any = msgspec.json.decode(read_regular(path), type=dict[str, _NotApplicable])
    except FileNotFoundError:
        return {}  # of releases all are applicable
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        history.problems.append(TrackerError(f"{path}: not readable ({error}); run make follow again"))
        return {}
    return {commit: entry.areas for commit, entry in found.items()}


def _landed(history: History) -> dict[str, LandedCommit]:
    """Of a history of main; a release is none of its commits."""
    if history.triton is None or all(is_release(c) for c in history.commits):
        return {}
    try:
        return {landed.sha: landed for landed in history.triton.main_line()}
    except TrackerError as error:
        history.problems.append(error)
        return {}


def _text(digest: str, history: History) -> str | None:
    try:
        return history.evidence.text(digest) if history.evidence else None
    except TrackerError as error:
        history.problems.append(error)
        return None
