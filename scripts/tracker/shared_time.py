"""Whose GPU time counts for whom: commits whose kernels are equal share their samples. Pure.

The GPU is asked to do exactly the same for two commits whose kernels have the same identities, so one timing
serves both. Shared samples serve the comparison of neighbours only: to a search through a history they would
look like sessions of their own, which they are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from scripts.tracker.model import (
    Case,
    CodegenMeasurement,
    Commit,
    MeasurementStatus,
    TimingMeasurement,
)
from scripts.tracker.steps import Step

# Of one commit and one case without n_ctx: every variant with its status and the identities of its kernels.
Code = tuple[tuple[str, str, tuple[str, ...]], ...]
Codes = Mapping[tuple[str, Case], Code]
# {session: {variant: measurement}} of one code.
_Sessions = dict[str, dict[str, TimingMeasurement]]


def codes_of(measurements: Sequence[CodegenMeasurement], target: str) -> dict[tuple[str, Case], Code]:
    """{(commit, case): its code}. Left out where a variant has no record: its kernels are unknown then."""
    rows: dict[tuple[str, Case], list[tuple[str, str, tuple[str, ...]]]] = defaultdict(list)
    unknown = set()
    for m in measurements:
        if m.target != target:
            continue
        if m.evidence is None:
            unknown.add((m.commit, m.case))
        else:
            rows[m.commit, m.case].append((m.variant, m.status.value, m.evidence.identity))
    return {key: tuple(sorted(found)) for key, found in rows.items() if key not in unknown}


def bare(case: Case) -> Case:
    """What code depends on."""
    return Case(case.head_dim, case.causal, case.dtype)


@dataclass(frozen=True, slots=True)
class SharedTimes:
    """Timings of one epoch and case, found by the code that they are of. ``own``: commits with samples of
    their own. A commit whose code is not known shares with nobody."""

    case: Case
    codes: Codes
    own: frozenset[str]
    sessions: dict[object, _Sessions]
    sizes: Mapping[str, int]

    def key(self, commit: str) -> object:
        return self.codes.get((commit, bare(self.case)), commit)

    def sides(self, before: str, after: str) -> tuple[dict[str, TimingMeasurement], ...]:
        """What two commits are compared by: a session that has both, the one with most commits and of equals
        the newest; without any, the best of each."""
        old, new = self.sessions[self.key(before)], self.sessions[self.key(after)]
        both = old.keys() & new.keys()
        chosen = [max(both or found, key=lambda s: (self.sizes[s], s)) for found in (old, new)]
        sides = ((before, old[chosen[0]]), (after, new[chosen[1]]))
        return tuple({v: replace(t, commit=commit) for v, t in side.items()} for commit, side in sides)


def share(timings: Sequence[TimingMeasurement], codes: Codes) -> Iterator[tuple[str, SharedTimes]]:
    """(epoch, its timings of one case), epoch by epoch and case by case."""
    rows: dict[tuple[str, Case], list[TimingMeasurement]] = defaultdict(list)
    in_session: dict[str, set[str]] = defaultdict(set)
    for t in timings:
        rows[t.epoch_key, t.case].append(t)
        in_session[t.session].add(t.commit)
    sizes = {session: len(commits) for session, commits in in_session.items()}
    for (epoch, case), found in sorted(rows.items()):
        by_commit: dict[tuple[str, str], dict[str, TimingMeasurement]] = defaultdict(dict)
        for t in found:
            by_commit[t.commit, t.session][t.variant] = t
        # A session that skipped all of a commit's variants in this case says nothing of it.
        asked = {key: of for key, of in by_commit.items() if any(_was_asked(t) for t in of.values())}
        times = SharedTimes(case, codes, frozenset(commit for commit, _ in asked), {}, sizes)
        for (commit, session), of in asked.items():
            times.sessions.setdefault(times.key(commit), {}).setdefault(session, of)
        yield epoch, times


def _was_asked(t: TimingMeasurement) -> bool:
    return t.status is not MeasurementStatus.SKIPPED


def timed_steps(
    timings: Sequence[TimingMeasurement], commits: Sequence[Commit], target: str, codes: Codes
) -> Iterator[Step[TimingMeasurement]]:
    """Neighbours among the commits that have GPU time, their own or that of equal kernels. Two whose code is
    the same are compared only if both were timed: else it would be one timing beside itself."""
    for _, times in share(timings, codes):
        here = [(i, c) for i, c in enumerate(commits) if times.key(c.commit) in times.sessions]
        for (i, before), (j, after) in pairwise(here):
            same = times.key(before.commit) == times.key(after.commit)
            if same and not {before.commit, after.commit} <= times.own:
                continue
            old, new = times.sides(before.commit, after.commit)
            yield Step(times.case, target, before, after, j - i - 1, old, new)


def commits_with_time(timings: Sequence[TimingMeasurement], codes: Codes) -> set[str]:
    """Those that were timed, and those whose kernels were, in a case at least."""
    reached = {t.commit for t in timings}
    for _, times in share(timings, codes):
        reached |= {c for c, case in codes if case == bare(times.case) and times.key(c) in times.sessions}
    return reached
