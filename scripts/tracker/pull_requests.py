"""Which pull request brought a commit. A number in a subject is a hint, no proof: forks keep upstream's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from scripts.tracker.github_answers import GitHubError, Pull
from scripts.tracker.history import LandedCommit

# A squash merge ends the subject with the number; a cherry-pick or a second merge adds another behind it.
_AT_END = re.compile(r"((?:\s*\(#[1-9][0-9]{0,6}\))+)\s*$", re.ASCII)
_TAIL_CHARACTERS = 200  # a hostile subject of endless suffixes must not take endless time
_NUMBER = re.compile(r"#([0-9]+)", re.ASCII)
_REVERT = re.compile(r'Revert ".*\(#([1-9][0-9]{0,6})\)(?:…|\.\.\.)?"', re.ASCII)
_MERGE = re.compile(r"Merge pull request #([1-9][0-9]{0,6}) from ", re.ASCII)

SQUASH = "squash suffix, not checked"
MERGE = "merge subject, not checked"
NONE = "no number in the subject"
CHECKED = "merged as this commit, says GitHub"
UNMERGED = "no pull request was merged as this commit, says GitHub"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """``number``: None if unknown. ``how`` it is known. ``others``: further numbers of the same subject,
    as of the pull request that a cherry-pick copies."""

    number: int | None
    how: str
    others: tuple[int, ...] = ()


class PullRequests(Protocol):
    """A source of pull requests by commit."""

    def of(self, commit: LandedCommit) -> PullRequest:
        """The pull request that brought a commit to the branch it is on."""


class SquashSuffix:
    """Reads the subject alone. Asking the code host, in the right repository, is the better source."""

    def of(self, commit: LandedCommit) -> PullRequest:
        return in_subject(commit.subject)


def in_subject(subject: str) -> PullRequest:
    """What a subject alone says."""
    if merged := _MERGE.match(subject):
        return PullRequest(int(merged[1]), MERGE)
    numbers = numbers_at_end(subject)
    if not numbers:
        return PullRequest(None, NONE)
    return PullRequest(numbers[-1], SQUASH, numbers[:-1])


class PullLookup(Protocol):
    """The one question to the code host; `github.GitHub` answers it."""

    def pulls_of(self, repository: str, commit: str) -> list[Pull]:
        """Pull requests that a commit belongs to. Raises GitHubError."""


@dataclass(frozen=True, slots=True)
class MergedPullRequests:
    """Asks the code host, in the right repository. Where it does not answer, the subject is the hint.

    For a commit that is on no branch of its own GitHub lists open pull requests too, and a fork's mirror
    has upstream's numbers: only the pull request that this commit is the merge of counts.
    """

    host: PullLookup
    repository: str
    branch: str = "main"

    def of(self, commit: LandedCommit) -> PullRequest:
        return self.brought(commit.sha, commit.subject)

    def brought(self, commit: str, subject: str) -> PullRequest:
        """The same, for a commit of which no more is known."""
        try:
            found = self.host.pulls_of(self.repository, commit)
        except GitHubError:
            return in_subject(subject)
        numbers = [pull.number for pull in found if self._brought(pull, commit)]
        if len(numbers) != 1:
            return PullRequest(None, UNMERGED, tuple(numbers))
        return PullRequest(numbers[0], CHECKED)

    def _brought(self, pull: Pull, sha: str) -> bool:
        home = pull.base.repo.full_name if pull.base.repo else ""
        return (
            pull.merged_at is not None
            and pull.merge_commit_sha == sha
            and pull.base.ref == self.branch
            and home.lower() == self.repository.lower()
        )


def numbers_at_end(subject: str) -> tuple[int, ...]:
    """Numbers of the suffixes that end a subject, in order: 3131 of `Revert "... (#3109)" (#3131)`."""
    found = _AT_END.search(subject[-_TAIL_CHARACTERS:])
    return tuple(int(number) for number in _NUMBER.findall(found[1])) if found else ()


def reverted_by(subject: str) -> int | None:
    """The pull request that a revert undoes: 3109 of `Revert "... (#3109)" (#3131)`."""
    found = _REVERT.match(subject[:1000])
    return int(found[1]) if found else None
