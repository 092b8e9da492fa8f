"""Where following main stands, from what is on disk: pure, so that a look never changes anything."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from scripts.tracker.history import LandedCommit
from scripts.tracker.results import BuildFailure, CommitResults
from scripts.tracker.selection import Selection, Why
from scripts.tracker.timing_backlog import TimingBacklog

# 1: first version.
STATUS_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class FollowStatus:
    """Commits: of main, newest first seen; None where there is none. ``backlog``: how many are left, and why.
    ``failures``: by kind; ``waiting``: of them, those that are tried again. ``gpu``: changes of code that
    have their time or wait for it. ``last_result``: when the newest measurement began."""

    seen: LandedCommit | None
    refreshed_at: datetime.datetime | None
    measured: LandedCommit | None
    timed: LandedCommit | None
    compiled: int
    gpu: TimingBacklog
    not_applicable: int
    orphans: int
    backlog: Mapping[Why, int]
    failures: Mapping[str, int]
    waiting: int
    last_result: datetime.datetime | None

    def stale(self, now: datetime.datetime, limit: datetime.timedelta) -> str | None:
        """Why a person should look: nothing was measured for so long though something is left, or main was
        not looked at. None: all is well. A tracker that is silent and one that is dead look the same."""
        if self.refreshed_at is None or now - self.refreshed_at > limit:
            return "main was never looked at" if self.refreshed_at is None else (
                f"main was looked at {days(now - self.refreshed_at)} ago")  # fmt: skip
        if not sum(self.backlog.values()):
            return None
        if self.last_result is None:
            return "nothing is measured, and something is left to measure"
        if now - self.last_result > limit:
            return (
                f"the last new result is {days(now - self.last_result)} old, and something is left to measure"
            )
        return None


def status_json(status: FollowStatus, at_work: str | None, stale: str | None) -> str:
    """{"schema": 1, "stale": why or null, "at_work": who or null, "status": as the class says}."""
    document = {"schema": STATUS_SCHEMA, "stale": stale, "at_work": at_work, "status": status}
    return msgspec.json.format(msgspec.json.encode(document)).decode()


def days(span: datetime.timedelta) -> str:
    return f"{max(0.0, span.total_seconds()) / 86400:.1f} days"


def newest(line: Sequence[LandedCommit], commits: set[str]) -> LandedCommit | None:
    return next((commit for commit in reversed(line) if commit.sha in commits), None)


def last_started(results: Sequence[CommitResults]) -> datetime.datetime | None:
    """When the newest of the measurements began, as asv wrote it: a copied file's own time says nothing."""
    starts = [row.started_at for r in results for row in r.benchmarks.values() if row.started_at]
    # A wrong clock must not look like news for years, nor overflow.
    plausible = [ms for ms in starts if 0 < ms < 4_102_444_800_000]
    return datetime.datetime.fromtimestamp(max(plausible) / 1000, datetime.UTC) if plausible else None


def status_of(
    line: Sequence[LandedCommit],
    selection: Selection,
    results: Sequence[CommitResults],
    compiled: set[str],
    timed: set[str],
    gpu: TimingBacklog,
    failures: Mapping[str, BuildFailure],
    refreshed_at: datetime.datetime | None,
) -> FollowStatus:
    open_failures = {c: f for c, f in failures.items() if c not in compiled}
    return FollowStatus(
        seen=line[-1] if line else None,
        refreshed_at=refreshed_at,
        measured=newest(line, compiled),
        timed=newest(line, timed),
        compiled=len(compiled),
        gpu=gpu,
        not_applicable=len(selection.not_applicable),
        orphans=len(selection.orphans),
        backlog=Counter(chosen.why for chosen in selection.chosen),
        failures=Counter(failure.kind for failure in open_failures.values()),
        waiting=sum(failure.transient for failure in open_failures.values()),
        last_result=last_started(results),
    )
