"""Which pull request brought a commit. A number in a subject is a hint, no proof: forks keep upstream's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

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
        if merged := _MERGE.match(commit.subject):
            return PullRequest(int(merged[1]), MERGE)
        numbers = numbers_at_end(commit.subject)
        if not numbers:
            return PullRequest(None, NONE)
        return PullRequest(numbers[-1], SQUASH, numbers[:-1])


def numbers_at_end(subject: str) -> tuple[int, ...]:
    """Numbers of the suffixes that end a subject, in order: 3131 of `Revert "... (#3109)" (#3131)`."""
    found = _AT_END.search(subject[-_TAIL_CHARACTERS:])
    return tuple(int(number) for number in _NUMBER.findall(found[1])) if found else ()


def reverted_by(subject: str) -> int | None:
    """The pull request that a revert undoes: 3109 of `Revert "... (#3109)" (#3131)`."""
    found = _REVERT.match(subject[:1000])
    return int(found[1]) if found else None
