"""Which commits may have done it: the commits of a finding's range, ranked. Pure, but for asking the history.

A commit's score is a product: the chance that it is in the range at all, how well its files explain the
first stage that differs, whether its subject or files are about what changed, whether they are about
something else. Scores of a range add up to 1. They rank; they are no probabilities of guilt.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from scripts.tracker.attribution_rules import Area, AttributionRules, spoken_of
from scripts.tracker.bumps import pulled_in
from scripts.tracker.errors import TrackerError
from scripts.tracker.history import CommitHistory, CommitRange, LandedCommit
from scripts.tracker.model import Commit, Finding, Stage, Suspect, Verdict
from scripts.tracker.pull_requests import PullRequests, numbers_at_end, reverted_by

MAX_SUBJECT_CHARACTERS = 100
UNKNOWN = "suspects unknown: "
NO_HISTORY = UNKNOWN + 'no history of Triton\'s commits (scripts/README.md, "Which pull request")'
NO_CLUE = "the code says neither stage nor metric, so none is singled out"


@dataclass(frozen=True, slots=True)
class Clue:
    """What is known of a variant's change of code: the first stage that differs on dQ's path (None: none
    does, or it is not known), the metrics that moved, the target."""

    stage: Stage | None
    metrics: frozenset[str]
    target: str


@dataclass(frozen=True, slots=True)
class Attribution:
    """Ranked suspects. ``unmeasured``: commits of the range without a measurement, None if the range is
    not known. ``sure``: how far this can be trusted, in words."""

    suspects: tuple[Suspect, ...]
    unmeasured: int | None
    sure: str


@dataclass(frozen=True, slots=True)
class Score:
    """How suspicious a commit is, and why, in words of ours. ``bump``: the pin that it moves."""

    score: float
    why: str
    bump: Area | None


def clue_of(finding: Finding) -> Clue:
    """Of the variant that moved; the other one's changes may have another cause."""
    moved = finding.reference if finding.verdict is Verdict.REFERENCE_MOVED else finding.candidate
    metrics = frozenset(change.metric for change in finding.codegen_changes if change.variant == moved)
    return Clue(finding.first_changed_stage, metrics, finding.target)


def attribute(
    found: CommitRange,
    clue: Clue,
    history: CommitHistory,
    measured: Collection[str],
    rules: AttributionRules,
    pull_requests: PullRequests,
) -> Attribution:
    """Rank what landed between two measured commits. ``measured``: hashes that have a measurement."""
    unmeasured = sum(commit.sha not in measured for commit in found.commits)
    if clue.stage is None and not clue.metrics and len(found.commits) > 1:
        return Attribution((), unmeasured, f"{_extent(found, unmeasured)}; {NO_CLUE}{_notes(found)}")
    undone = undone_within(found.commits)
    scored = [
        (score_commit(commit, chance, commit.sha in undone, clue, rules), commit)
        for commit, chance in zip(found.commits, found.chances, strict=True)
    ]
    newest_first = scored[::-1]  # stays so among equals: sorted() is stable
    ranked = sorted(newest_first, key=lambda row: row[0].score, reverse=True)
    total = sum(scored_commit.score for scored_commit, _ in scored)
    suspects = tuple(
        _suspect(commit, found_score, total, history, pull_requests)
        for found_score, commit in ranked[: rules.max_suspects]
        if found_score.score > 0
    )
    innocent = sum(found_score.score == 0 for found_score, _ in scored)
    return Attribution(suspects, unmeasured, _how_sure(found, clue, unmeasured, innocent, bool(suspects)))


def score_commit(
    commit: LandedCommit, chance: float, undone: bool, clue: Clue, rules: AttributionRules
) -> Score:
    """Scores compare within one clue. ``chance``: that it is in the range; ``undone``: within the range."""
    areas = {area.name: area for area in map(rules.area_of, commit.files) if area is not None}
    bump = next((area for area in areas.values() if area.bump), None)
    weights = {name: area.weight(clue.stage, clue.target) for name, area in areas.items()}
    if bump and spoken_of(bump.bump_words, commit.subject):
        weights = {n: w if areas[n].bump else w * rules.beside_a_bump for n, w in weights.items()}
    if not any(weights.values()):
        return Score(0.0, "touches nothing that this code is compiled from", bump)
    best = max(weights, key=lambda name: weights[name])
    score = chance * weights[best]
    reasons = [f"touches {best}"]
    for topic in rules.topic:
        weight = topic.weight(commit.subject, commit.files)
        if weight != 1 and clue.metrics.intersection(topic.metrics):
            score *= weight
            reasons.append(f"is about {topic.name}" if weight == topic.factor else f"near {topic.name}")
    for other in rules.elsewhere:
        if fnmatchcase(clue.target, other.target) and spoken_of(other.words, commit.subject):
            score *= other.factor
            reasons.append(other.name)
    if undone:
        score *= rules.undone
        reasons.append("undone within the range, or undoes")
    if chance < 1:
        reasons.append(f"{chance:.0%} sure to be in the range")
    return Score(score, ", ".join(reasons), bump)


def undone_within(commits: tuple[LandedCommit, ...]) -> set[str]:
    """Commits whose revert is in the range too, with the reverts."""
    by_number = {number: c.sha for c in commits for number in numbers_at_end(c.subject)[-1:]}
    undone = set()
    for commit in commits:
        reverted = reverted_by(commit.subject)
        if reverted in by_number and by_number[reverted] != commit.sha:
            undone |= {commit.sha, by_number[reverted]}
    return undone


def _suspect(
    commit: LandedCommit,
    found: Score,
    total: float,
    history: CommitHistory,
    pull_requests: PullRequests,
) -> Suspect:
    pull_request = pull_requests.of(commit)
    return Suspect(
        commit=commit.sha,
        pr=pull_request.number,
        score=round(found.score / total, 4),
        why=found.why,
        subject=clean(commit.subject),
        how=pull_request.how,
        bump=pulled_in(found.bump, commit, history) if found.bump else None,
    )


def clean(subject: str) -> str:
    """A subject for people: one line, no control or invisible characters, not endless."""
    words = " ".join("".join(c if c.isprintable() else " " for c in subject[:1000]).split())
    return words if len(words) <= MAX_SUBJECT_CHARACTERS else words[: MAX_SUBJECT_CHARACTERS - 3] + "..."


def _how_sure(found: CommitRange, clue: Clue, unmeasured: int, innocent: int, any_suspect: bool) -> str:
    if len(found.commits) == 1 and found.exact:
        if any_suspect:
            return "verified: the only commit between two measured ones, which are its parent and itself"
        return (
            "the only commit between two measured ones, but its files cannot change this code: "
            "measure both again before anyone is told"
        )
    where = f"first seen in {clue.stage.value}" if clue.stage else "stage unknown or off dQ's path"
    return (
        f"{_extent(found, unmeasured)}; {innocent} ruled out by their files; ranked by rules ({where}), "
        f"not proved{_notes(found)}"
    )


def _extent(found: CommitRange, unmeasured: int) -> str:
    return f"one of {len(found.commits)} commits, {unmeasured} of them never measured"


def _notes(found: CommitRange) -> str:
    return "".join(f"; {note}" for note in found.notes)


def name_suspects(
    findings: list[Finding],
    history: CommitHistory | None,
    measured: Collection[str],
    rules: AttributionRules,
    pull_requests: PullRequests,
) -> list[Finding]:
    """The findings with their suspects; without a history each says that there is none. One that says already
    why it has none keeps that."""
    if history is None:
        return [replace(f, attribution=f.attribution or NO_HISTORY) for f in findings]
    ranges: dict[tuple[Commit, Commit], CommitRange | TrackerError] = {}
    known: dict[tuple[Commit, Commit, Clue], Attribution] = {}
    named = []
    for finding in findings:
        if finding.attribution:
            named.append(finding)
            continue
        ends = (finding.before, finding.after)
        if ends not in ranges:
            ranges[ends] = _range(history, *ends)
        key = (*ends, clue_of(finding))
        if key not in known:
            found = ranges[ends]
            known[key] = (
                attribute(found, key[2], history, measured, rules, pull_requests)
                if isinstance(found, CommitRange)
                else Attribution((), None, f"{UNKNOWN}{found}")
            )
        named.append(_with(finding, known[key]))
    return named


def _range(history: CommitHistory, before: Commit, after: Commit) -> CommitRange | TrackerError:
    """A range that cannot be told takes no other finding's suspects away."""
    try:
        return history.between(before, after)
    except TrackerError as error:
        return error


def _with(finding: Finding, found: Attribution) -> Finding:
    unmeasured = finding.unmeasured_commits if found.unmeasured is None else found.unmeasured
    return replace(finding, suspects=found.suspects, unmeasured_commits=unmeasured, attribution=found.sure)
