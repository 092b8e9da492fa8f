"""Follows main: measures commit after commit, chosen anew after each, and keeps books of what could not be.

Everything that is measured is published before the next commit is chosen, and what to do next follows from
what is published. So a run may end at any moment, and the next one goes on.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from scripts.tracker.code_digest import code_digest, measured_commits
from scripts.tracker.errors import TrackerError
from scripts.tracker.follow_state import FollowState, write_state
from scripts.tracker.harness import AsvHarness, DeadlineError, Suite, record_failure, write_json
from scripts.tracker.history import LandedCommit
from scripts.tracker.model import Commit
from scripts.tracker.results import BuildFailure, read_failures
from scripts.tracker.selection import Chosen, Selection, SelectionRules, select

# Of the machine, not of the commit: the next commit would fail as well.
_MACHINE_KINDS = frozenset({"disk full", "missing tools"})
_MAX_IN_A_ROW = 3
_LABEL_DIGITS = 10
NOT_APPLICABLE_FILE = "not_applicable.json"
Tick = Callable[[int], None]
OnStep = Callable[[Chosen, int], AbstractContextManager[Tick]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one commit. ``failure``: None if it is measured now."""

    chosen: Chosen
    failure: BuildFailure | None


@dataclass(slots=True)
class Follower:
    """One run. ``line``: gives main as it is now, oldest first, asked before each choice.
    ``on_step``: shows a commit's progress. ``now``: the clock. ``only``: commits in the order in which they
    are measured, like a shard's; None: main decides."""

    harness: AsvHarness
    rules: SelectionRules
    state: FollowState
    line: Callable[[], Sequence[LandedCommit]]
    on_step: OnStep
    now: Callable[[], datetime.datetime]
    retry_failed: bool = False
    only: Sequence[str] | None = None
    _measured: dict[str, str] = field(default_factory=dict)
    _tried: set[str] = field(default_factory=set)

    def run(self, limit: int | None) -> Iterator[Outcome]:
        """Measure until nothing is left or ``limit`` commits were tried. Raises TrackerError where going on
        makes no sense: the machine cannot build, or one commit after another fails."""
        results, target = self.harness.workspace.results, self.harness.target
        folder = results / self.harness.machine
        self._measured = measured_commits(folder, self.harness.suite, self.harness.workspace.evidence)
        self._forget_failures_of_measured()
        in_a_row = 0
        while limit is None or len(self._tried) < limit:
            selection = self.choose()
            write_lists(self.harness.workspace.results, selection, self.harness.suite)
            if not selection.chosen:
                return
            outcome = self._measure(selection)
            self._tried.add(outcome.chosen.commit.sha)
            failure = outcome.failure
            record_failure(results, target, outcome.chosen.commit.sha, failure)
            passing = failure is not None and failure.transient
            self.state.count(target, outcome.chosen.commit.sha, passing, self.now())
            write_state(results, self.state)
            yield outcome
            in_a_row = in_a_row + 1 if passing else 0
            if failure is not None and (failure.kind in _MACHINE_KINDS or in_a_row >= _MAX_IN_A_ROW):
                raise TrackerError(
                    f"stopped, because the next commit would fail as well: {failure.reason}; mend it and run "
                    "the same command again"
                )

    def choose(self) -> Selection:
        """What is left, in order. What failed for good is not tried again unless asked."""
        target = self.harness.target
        given_up = set(self._tried)
        if not self.retry_failed:
            failures = read_failures(self.harness.workspace.results).get(target, {})
            given_up |= {commit for commit, failure in failures.items() if not failure.transient}
            given_up |= self.state.not_due(target, self.now())
        selection = select(self.line(), self.rules, target, self._measured, given_up)
        if self.only is None:
            return selection
        chosen = {c.commit.sha: c for c in selection.chosen}
        return replace(selection, chosen=tuple(chosen[sha] for sha in self.only if sha in chosen))

    def _measure(self, selection: Selection) -> Outcome:
        chosen = selection.chosen[0]
        commit = chosen.commit.sha
        try:
            with self.on_step(chosen, len(selection.chosen)) as tick:
                failure = self.harness.measure(labelled(chosen.commit), tick)
        except TrackerError as error:
            # asv could not work; whether with this commit or at all, the next ones will tell.
            kind = "timeout" if isinstance(error, DeadlineError) else "other"
            failure = BuildFailure(str(error), True, kind)
        if failure is None:
            found = self.harness.existing(commit)
            if found is None:
                return Outcome(chosen, BuildFailure("its result vanished", True))
            self._measured[commit] = code_digest(found, self.harness.workspace.evidence)
        return Outcome(chosen, failure)

    def _forget_failures_of_measured(self) -> None:
        """A run that was killed between a result and the books."""
        results, target = self.harness.workspace.results, self.harness.target
        for commit in read_failures(results).get(target, {}):
            if commit in self._measured:
                record_failure(results, target, commit, None)


def write_lists(results: Path, selection: Selection, suite: Suite) -> None:
    """What the judging half reads: commits in order, variants, and who shares whose measurement."""
    write_json(results / "commits.json", [labelled(commit) for commit in selection.applicable])
    write_json(results / "variants.json", suite.variants)
    shared = {n.commit: {"shares": n.shares, "areas": n.areas} for n in selection.not_applicable}
    write_json(results / NOT_APPLICABLE_FILE, shared)
    write_json(results / "orphans.json", selection.orphans)


def labelled(commit: LandedCommit) -> Commit:
    """A commit of main has no name but its hash."""
    return Commit(commit.sha, commit.sha[:_LABEL_DIGITS])
