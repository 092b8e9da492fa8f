"""Whose pull request may be told of a group of findings, or why nobody's. Pure, but for asking the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from scripts.tracker.errors import TrackerError
from scripts.tracker.groups import FindingGroup
from scripts.tracker.history import CommitHistory
from scripts.tracker.model import Commit, Suspect
from scripts.tracker.policy import CommentPolicy
from scripts.tracker.pull_requests import CHECKED, PullRequest, numbers_at_end, reverted_by


class CheckedPullRequests(Protocol):
    """The code host's word on a commit; `pull_requests.MergedPullRequests` has it."""

    def brought(self, commit: str, subject: str) -> PullRequest:
        """The pull request that a commit is the merge of."""


@dataclass(frozen=True, slots=True)
class Addressees:
    """``numbers``: pull requests to be told. ``why``: why these, or why none."""

    numbers: tuple[int, ...]
    why: str


@dataclass(slots=True)
class Reverts:
    """Pull requests that a later commit undid, and the pull request that did. Asked once a commit."""

    history: CommitHistory | None
    newest: Commit | None
    known: dict[str, Mapping[int, int | None]] = field(default_factory=dict)

    def after(self, commit: Commit) -> Mapping[int, int | None]:
        """{undone: by whom, None if that cannot be told}; empty where the history cannot tell."""
        if self.history is None or self.newest is None or commit == self.newest:
            return {}
        if commit.commit not in self.known:
            try:
                landed = self.history.between(commit, self.newest).commits
            except TrackerError:
                landed = ()
            undone = {reverted_by(c.subject): (numbers_at_end(c.subject) or (None,))[-1] for c in landed}
            self.known[commit.commit] = {n: by for n, by in undone.items() if n is not None}
        return self.known[commit.commit]


def addressees(
    group: FindingGroup, pull_requests: CheckedPullRequests, reverts: Reverts, policy: CommentPolicy
) -> Addressees:
    """The likeliest pull requests, as many as the policy allows, each checked with the code host."""
    named = group.attributions_of(group.verdict)[:1]
    if not named or not named[0].suspects:
        why = named[0].attribution if named else "nobody looked for suspects"
        return Addressees((), f"no suspect is named ({why})")
    suspects = [s for s in named[0].suspects if s.score >= policy.min_suspect_share]
    if not suspects:
        best = max(s.score for s in named[0].suspects)
        least = f"{policy.min_suspect_share:.0%}"
        return Addressees((), f"the likeliest of the range has {best:.1%} of its score, less than {least}")
    undone = reverts.after(group.after)
    numbers: list[int] = []
    refused: list[str] = []
    for suspect in suspects[: policy.max_pull_requests]:
        number, why = _checked(suspect, pull_requests, undone)
        if number is None:
            refused.append(f"{suspect.commit[:10]}: {why}")
        else:
            numbers.append(number)
    return Addressees(tuple(dict.fromkeys(numbers)), "; ".join(refused) or "the likeliest of the range")


def _checked(
    suspect: Suspect, pull_requests: CheckedPullRequests, undone: Mapping[int, int | None]
) -> tuple[int | None, str]:
    found = pull_requests.brought(suspect.commit, suspect.subject)
    if found.number is None or found.how != CHECKED:
        return None, found.how
    if found.number in undone:
        by = undone[found.number]
        return None, f"pull request {found.number} was reverted since" + (f" by {by}" if by else "")
    return found.number, ""
