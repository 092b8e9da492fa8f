"""How well the rules of attribution rank commits of known nature, each within a range around it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console

from scripts.tracker.attribute import Clue, score_commit, undone_within
from scripts.tracker.attribution_rules import AttributionRules, read_rules
from scripts.tracker.errors import TrackerError
from scripts.tracker.history import FileHistory, LandedCommit
from scripts.tracker.model import Stage
from scripts.tracker.pull_requests import SquashSuffix

RANGE_COMMITS = 200
_TARGET = "cuda:90"


class KnownCommit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pull request with the stage and the metrics that it changes. ``what`` it does, for people."""

    pr: int
    stage: Stage
    metrics: tuple[str, ...]
    what: str


@dataclass(frozen=True, slots=True)
class Rank:
    """Where a known commit came out: ``best`` if it wins every tie, ``worst`` if it loses them all."""

    known: KnownCommit
    best: int
    worst: int

    @property
    def expected(self) -> float:
        return (self.best + self.worst) / 2


def read_known_commits(path: Path) -> list[KnownCommit]:
    """Raises TrackerError naming the file."""
    try:
        known = msgspec.toml.decode(path.read_bytes(), type=dict[str, list[KnownCommit]])["known"]
        if not known:
            raise ValueError("it lists none")
        return known
    except (OSError, KeyError, ValueError, msgspec.MsgspecError) as error:
        raise TrackerError(f"{path}: not a list of known commits ({error}); see {_EXAMPLE}") from error


_EXAMPLE = "tests/data/known_commits.toml"


def rank_known(history: FileHistory, known: KnownCommit, rules: AttributionRules) -> Rank:
    """Rank one among `RANGE_COMMITS`; where in the range it stands follows from its number, so that it
    stands in no special place. Raises TrackerError if the history does not have it."""
    numbers = [SquashSuffix().of(commit).number for commit in history.commits]
    if known.pr not in numbers:
        raise TrackerError(f"pull request {known.pr} is not in this history; leave it out of the backtest")
    position = numbers.index(known.pr)
    first = max(0, min(position - known.pr % RANGE_COMMITS, len(numbers) - RANGE_COMMITS))
    return rank_within(
        tuple(history.commits[first : first + RANGE_COMMITS]), history.commits[position], known, rules
    )


def rank_within(
    commits: tuple[LandedCommit, ...], culprit: LandedCommit, known: KnownCommit, rules: AttributionRules
) -> Rank:
    clue = Clue(known.stage, frozenset(known.metrics), _TARGET)
    undone = undone_within(commits)
    scores = {c.sha: score_commit(c, 1.0, c.sha in undone, clue, rules).score for c in commits}
    own = scores[culprit.sha]
    above = sum(score > own for score in scores.values())
    ties = sum(score == own for score in scores.values())
    return Rank(known, above + 1, above + ties)


def print_backtest(console: Console, history: FileHistory, known: list[KnownCommit]) -> None:
    rules = read_rules()
    ranks = [rank_known(history, entry, rules) for entry in known]
    for rank in ranks:
        place = f"{rank.best}" if rank.best == rank.worst else f"{rank.best} to {rank.worst}"
        console.print(
            f"{place:>9}  PR {rank.known.pr:5} {rank.known.stage.value:5} {rank.known.what}", highlight=False
        )
    expected = [rank.expected for rank in ranks]
    top = {n: sum(rank.worst <= n for rank in ranks) for n in (1, 5, 10)}
    console.print(
        f"{len(ranks)} known commits in ranges of {min(RANGE_COMMITS, len(history.commits))}: median rank "
        f"{statistics.median(expected):g} (by chance {(RANGE_COMMITS + 1) / 2:g}), "
        + ", ".join(f"{count} surely in the first {n}" for n, count in top.items()),
        highlight=False,
    )
