"""How often the shipped detector is wrong: histories with known truth, played commit by commit. Pure.

After every commit the detector sees what it would have seen then. An alarm is a finding that others are told
of; alarms of one series within five commits of each other are one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from scripts.tracker.detect import detect
from scripts.tracker.model import Verdict
from scripts.tracker.policy import DetectionPolicy
from scripts.tracker.steps import Judgement
from scripts.tracker.worlds import EXPECTED, ROLES, Kind, World, head, make_world

SIZES = (0.02, 0.03, 0.05, 0.1, 1.0)
DELAYS = (0, 3, 12)
_NEAR = 5
_COMMITS_A_CHANGE = 240  # at which precision is stated: one true change in so many commits


@dataclass(frozen=True, slots=True)
class Alarm:
    """``seen``: the column of the newest commit when it was first told; ``at``: of the commit it accuses."""

    case: int
    candidate: str
    reference: str
    verdict: Verdict
    at: int
    seen: int


@dataclass(frozen=True, slots=True)
class Recall:
    """Share of changed series found within so many commits. ``delay``: the median of those found."""

    size: float
    series: int
    within: dict[int, float]
    precision: float | None
    delay: float | None


@dataclass(frozen=True, slots=True)
class Score:
    """``false_alarms``: per 1000 commits and series, on series without a change. ``pending``: likewise, of
    suspicions that asked for another session. ``verdicts``: {kind: {verdict: share of changed series}}."""

    commits: int
    series: int
    false_alarms: float
    pending: float
    recalls: tuple[Recall, ...]
    verdicts: dict[str, dict[str, float]]


def score(worlds: int, policy: DetectionPolicy) -> Score:
    """Play ``worlds`` of every kind and size. Deterministic."""
    quiet: list[tuple[World, list[Alarm]]] = []
    steps: dict[float, list[tuple[World, list[Alarm]]]] = defaultdict(list)
    for i, (kind, size) in enumerate(_worlds()):
        for seed in range(worlds):
            world = make_world(kind, size, seed=1000 * i + seed)
            played = world, list(play(world, policy))
            if kind is Kind.NOTHING:
                quiet.append(played)
            elif kind is Kind.STEP:
                steps[size].append(played)
    false, pending, commits, series = _false_alarms(quiet + [p for of in steps.values() for p in of], policy)
    return Score(
        commits,
        series,
        false,
        pending,
        tuple(_recall(size, of, false) for size, of in steps.items()),
        {kind.value: _verdicts(kind, worlds, policy) for kind in EXPECTED},
    )


def _worlds() -> list[tuple[Kind, float]]:
    return [(Kind.NOTHING, 0.0)] + [(Kind.STEP, size) for size in SIZES]


def play(world: World, policy: DetectionPolicy) -> Iterator[Alarm]:
    """Every alarm and suspicion, once, in the order in which they were raised."""
    known: dict[tuple[int, str, str, bool], list[int]] = defaultdict(list)
    cases = {case: i for i, case in enumerate(world.panel.cases)}
    column = {c: i for i, c in enumerate(world.panel.commits)}
    for n in range(policy.min_commits, len(world.panel.commits) + 1):
        panel = head(world.panel, n)
        for f in detect(panel, ROLES, policy, Judgement()):
            if not f.verdict.is_public and f.verdict is not Verdict.PENDING:
                continue
            at = column[f.after]
            places = known[cases[f.case], f.candidate, f.reference, f.verdict.is_public]
            if all(abs(at - place) > _NEAR for place in places):
                places.append(at)
                yield Alarm(cases[f.case], f.candidate, f.reference, f.verdict, at, n - 1)


def _false_alarms(
    played: list[tuple[World, list[Alarm]]], policy: DetectionPolicy
) -> tuple[float, float, int, int]:
    """Alarms and suspicions per 1000 commits and series where nothing changed; and of how many."""
    references = sum(role == "reference" for role in ROLES.values())
    alarms = suspicions = places = commits = series = 0
    for world, raised in played:
        clean = set(range(len(world.panel.cases))) - set(world.cases)
        n = len(world.panel.commits) - policy.min_commits
        series += len(clean) * references
        places += n * len(clean) * references
        commits += n
        alarms += sum(a.case in clean and a.verdict.is_public for a in raised)
        suspicions += sum(a.case in clean and not a.verdict.is_public for a in raised)
    return 1000 * alarms / places, 1000 * suspicions / places, commits, series


def _recall(size: float, played: list[tuple[World, list[Alarm]]], false_alarms: float) -> Recall:
    delays: list[float] = []
    series = 0
    for world, raised in played:
        for case in world.cases:
            for reference in (v for v, role in ROLES.items() if role == "reference"):
                series += 1
                found = [
                    a.seen - world.at
                    for a in raised
                    if (a.case, a.reference) == (case, reference)
                    and a.verdict is EXPECTED[world.kind]
                    and abs(a.at - world.at) <= _NEAR
                ]
                delays += [max(min(found), 0)] if found else []
    within = {d: sum(delay <= d for delay in delays) / series for d in DELAYS}
    right = within[DELAYS[-1]]
    wrong = false_alarms * _COMMITS_A_CHANGE / 1000
    middle = sorted(delays)[len(delays) // 2] if delays else None
    return Recall(size, series, within, right / (right + wrong) if right else None, middle)


def _verdicts(kind: Kind, worlds: int, policy: DetectionPolicy) -> dict[str, float]:
    """What is said, with the whole history at hand, of series in which a large change of a kind happened."""
    said: Counter[str] = Counter()
    series = 0
    for seed in range(worlds):
        world = make_world(kind, 0.2, seed=900_000 + seed)
        cases = {case: i for i, case in enumerate(world.panel.cases)}
        column = {c: i for i, c in enumerate(world.panel.commits)}
        findings = detect(world.panel, ROLES, policy, Judgement())
        references = ["store"] if kind is Kind.REFERENCE else ["inline_asm", "store"]
        for case in world.cases:
            for reference in references:
                series += 1
                here = [f for f in findings if (cases[f.case], f.reference) == (case, reference)]
                at = {
                    f.verdict.value
                    for f in here
                    if abs(column[f.after] - world.at) <= _NEAR or f.verdict is Verdict.UNSTABLE
                }
                said.update(at or {"nothing"})
    return {verdict: count / series for verdict, count in sorted(said.items())}
