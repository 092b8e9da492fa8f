"""Closes a range of commits to the one that changed something, or to as few as can be told. Pure: whoever
asks a commit is handed in.

Both ends are asked before anything else. A commit that cannot be built is skipped, not blamed. The culprit
and its parent are asked once more from scratch, parent, culprit, parent: an answer that does not hold was
no answer, its commit is skipped from then on and the search begins again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from scripts.tracker.model import Commit

_SPENT = "no more commits may be built"


class Answer(StrEnum):
    """What a commit says."""

    OLD = "old"  # as at the older end
    NEW = "new"  # not any more
    SKIPPED = "skipped"  # does not build, has no such variant, or does not answer the same twice


@dataclass(frozen=True, slots=True)
class Probed:
    """One answer. ``seen``: the value behind it, or why there is none."""

    answer: Answer
    seen: str


@dataclass(frozen=True, slots=True)
class Probe:
    """How commits are asked. ``ask(commit, fresh)``: fresh takes nothing that is stored for an answer.
    ``costs(commit)``: whether asking it means work; what is stored is asked first. GPU time fits in here
    as well as generated code does."""

    ask: Callable[[Commit, bool], Probed]
    costs: Callable[[Commit], bool]


class Outcome(StrEnum):
    """How a bisection ended."""

    CULPRIT = "culprit"  # verified once more, with its parent
    UNVERIFIED = "culprit, not verified once more"
    RANGE = "range"
    NOT_REPRODUCED = "not reproduced"


@dataclass(frozen=True, slots=True)
class Step:
    """One commit that was asked, and its answer."""

    commit: Commit
    fresh: bool
    probed: Probed


@dataclass(frozen=True, slots=True)
class Bisection:
    """``last_old`` and ``first_new`` enclose what is left; ``between``: commits that could not be told."""

    outcome: Outcome
    last_old: Commit
    first_new: Commit
    between: tuple[Commit, ...]
    why: str
    steps: tuple[Step, ...]


@dataclass(slots=True)
class _Search:
    commits: list[Commit]
    probe: Probe
    budget: int
    on_step: Callable[[Step], None]
    steps: list[Step] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def ask(self, commit: Commit, fresh: bool = False) -> Probed:
        if fresh or self.probe.costs(commit):
            self.budget -= 1
        step = Step(commit, fresh, self.probe.ask(commit, fresh))
        self.steps.append(step)
        self.on_step(step)
        return step.probed

    def affordable(self, commit: Commit) -> bool:
        return self.budget > 0 or not self.probe.costs(commit)

    def end(self, outcome: Outcome, low: int, high: int, why: str) -> Bisection:
        between = tuple(self.commits[low + 1 : high])
        old, new = self.commits[low], self.commits[high]
        return Bisection(outcome, old, new, between, why, tuple(self.steps))


def close_range(
    commits: list[Commit],
    probe: Probe,
    budget: int,
    verify: bool,
    on_step: Callable[[Step], None] = lambda step: None,
) -> Bisection:
    """``commits``: oldest first, the ends of the range among them. ``budget``: how many commits may be
    built. ``verify``: ask culprit and parent once more from scratch, which the budget pays for too."""
    if len(commits) < 2:
        raise ValueError("a range has two ends")
    search = _Search(commits, probe, budget, on_step)
    if (wrong := _wrong_end(search)) is not None:
        return wrong
    while True:
        low, high, why = _narrow(search)
        if high - low > 1:
            return search.end(Outcome.RANGE, low, high, why)
        if not verify:
            return search.end(Outcome.UNVERIFIED, low, high, "not asked once more")
        liar = _sandwich(search, low, high)
        if liar is None:
            return search.end(Outcome.CULPRIT, low, high, "parent, culprit, parent asked from scratch")
        commit, probed = liar
        if probed.answer is Answer.SKIPPED:
            return search.end(Outcome.UNVERIFIED, low, high, f"{commit.label}: {probed.seen}")
        why = f"{commit.label} does not answer the same twice ({probed.seen})"
        if commit in (commits[0], commits[-1]):
            return search.end(Outcome.NOT_REPRODUCED, 0, len(commits) - 1, why)
        search.skipped[commit.commit] = why


def _wrong_end(search: _Search) -> Bisection | None:
    """Ask both ends; None if they are what they should be."""
    commits, last = search.commits, len(search.commits) - 1
    for i, wanted in ((0, Answer.OLD), (last, Answer.NEW)):
        if not search.affordable(commits[i]):
            return search.end(Outcome.RANGE, 0, last, f"{commits[i].label} was not asked: {_SPENT}")
        probed = search.ask(commits[i])
        if probed.answer is not wanted:
            why = f"{commits[i].label} should be {wanted}: it is {probed.answer} ({probed.seen})"
            return search.end(Outcome.NOT_REPRODUCED, 0, last, why)
    return None


def _narrow(search: _Search) -> tuple[int, int, str]:
    """Halve the range until its ends are neighbours, or nothing between them can be asked."""
    low, high = 0, len(search.commits) - 1
    while high - low > 1:
        open_ = [i for i in range(low + 1, high) if search.commits[i].commit not in search.skipped]
        affordable = [i for i in open_ if search.affordable(search.commits[i])]
        if not affordable:
            why = _SPENT if open_ else "; ".join(_reasons(search, low, high))
            return low, high, why
        # What costs nothing first, then the nearest to the middle.
        i = min(affordable, key=lambda i: (search.probe.costs(search.commits[i]), abs(2 * i - low - high)))
        probed = search.ask(search.commits[i])
        if probed.answer is Answer.OLD:
            low = i
        elif probed.answer is Answer.NEW:
            high = i
        else:
            search.skipped[search.commits[i].commit] = f"{search.commits[i].label}: {probed.seen}"
    return low, high, ""


def _reasons(search: _Search, low: int, high: int) -> list[str]:
    return [search.skipped[search.commits[i].commit] for i in range(low + 1, high)]


def _sandwich(search: _Search, low: int, high: int) -> tuple[Commit, Probed] | None:
    """Parent, culprit, parent, from scratch. None if all hold; else the first that does not."""
    for i, wanted in ((low, Answer.OLD), (high, Answer.NEW), (low, Answer.OLD)):
        if search.budget <= 0:
            return search.commits[i], Probed(Answer.SKIPPED, _SPENT)
        probed = search.ask(search.commits[i], fresh=True)
        if probed.answer is not wanted:
            return search.commits[i], probed
    return None
