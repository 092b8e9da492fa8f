"""What is to be said where in this run: new threads, edits, and what is not said and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from scripts.tracker.addressees import Addressees
from scripts.tracker.groups import SEVERITY, VERDICT_WORDS, FindingGroup
from scripts.tracker.ledger import Entry, Kind, Told, thread_key
from scripts.tracker.policy import CommentPolicy
from scripts.tracker.recovery import Measured
from scripts.tracker.standing import Standing, State, group_key

_TROUBLE = "the tracker itself"


class Mode(StrEnum):
    """Who is told: nobody, our own repository, or the pull requests as well."""

    DRY_RUN = "dry-run"
    OWN_ISSUE = "own-issue"
    PULL_REQUEST = "pull-request"


@dataclass(frozen=True, slots=True)
class Judged:
    """A group, how well it stands, and whose it may be."""

    group: FindingGroup
    standing: Standing
    addressees: Addressees

    @property
    def key(self) -> str:
        return group_key(self.group)

    @property
    def told(self) -> Told:
        g = self.group
        return Told(self.key, g.candidate, g.target, g.before, g.after, g.verdict.value)

    @property
    def weight(self) -> tuple[int, float]:
        """Sorts the worst first."""
        worst = max((abs(f.candidate_change or f.change or 0.0) for f in self.group.findings), default=0.0)
        return SEVERITY.index(self.group.verdict), -worst


@dataclass(frozen=True, slots=True)
class TakenBack:
    """Something said earlier that is no more, and why, in words of ours."""

    told: Told
    why: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """The tracker itself is broken: a failed analysis is never silent. ``why``: empty when it works again."""

    why: str


@dataclass(frozen=True, slots=True)
class Post:
    """A thread as it shall be. ``parts``: worst first. ``number``: of the pull request, 0 for an issue."""

    kind: Kind
    repository: str
    number: int
    key: str
    parts: tuple[Judged | TakenBack | Trouble, ...]

    @property
    def is_over(self) -> bool:
        """Whether nothing in it asks for anything any more."""
        over = (State.RECOVERED, State.NOT_REPRODUCED)
        return not any(part.why for part in self.parts if isinstance(part, Trouble)) and all(
            one.standing.state in over for one in self.groups
        )

    @property
    def groups(self) -> list[Judged]:
        return [part for part in self.parts if isinstance(part, Judged)]

    @property
    def told(self) -> tuple[Told, ...]:
        return tuple(part.told for part in self.parts if not isinstance(part, Trouble))


@dataclass(frozen=True, slots=True)
class Text:
    """``body``: begins with the marker. ``title``: of an issue."""

    title: str
    body: str


def marker(key: str) -> str:
    """The first line of everything that we write; a reader does not see it."""
    return f"<!-- atomwatch:1 {key} -->"


@dataclass(frozen=True, slots=True)
class Unsaid:
    """Something that nobody is told in this run."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """``edits`` stand before ``new`` ones: to take back is more urgent than to claim."""

    edits: list[Post]
    new: list[Post]
    unsaid: list[Unsaid]


def plan_posts(
    judged: Iterable[Judged],
    expected: Mapping[str, str],
    entries: Iterable[Entry],
    measured: Measured,
    mode: Mode,
    repositories: tuple[str, str],
    policy: CommentPolicy,
) -> Plan:
    """``expected``: reason by group key, of groups that expected_changes.toml quiets. ``repositories``:
    Triton's and ours."""
    upstream, home = repositories
    by_key = {one.key: one for one in judged}
    known = {entry.key: entry for entry in entries if entry.key != trouble_issue("", home).key}
    plan = Plan([], [], [])
    threads: dict[str, Post] = {}
    for entry in known.values():
        post = _as_it_is_now(entry, by_key, expected, measured, mode)
        if isinstance(post, Post):
            threads[entry.key] = post
        else:
            plan.unsaid.append(post)
    told = {one.key for post in threads.values() if post.kind is Kind.COMMENT for one in post.groups}
    for one in sorted(by_key.values(), key=lambda one: one.weight):
        if one.key in told and not one.addressees.numbers:
            continue  # GitHub does not answer today: what it said once about the pull request stands
        targets, why = _targets(one, mode, upstream, home, policy)
        if not targets:
            plan.unsaid.append(Unsaid(name_of(one.told), why))
        for target in targets:
            there = threads.setdefault(target.key, target)
            if one.key not in {told.key for told in there.told}:
                threads[target.key] = replace(there, parts=(*there.parts, one))
    for post in threads.values():
        (plan.edits if post.key in known else plan.new).append(_worst_first(post))
    plan.new.sort(key=lambda post: post.groups[0].weight)
    return _capped(plan, policy.max_new)


def _as_it_is_now(
    entry: Entry,
    by_key: Mapping[str, Judged],
    expected: Mapping[str, str],
    measured: Measured,
    mode: Mode,
) -> Post | Unsaid:
    """A thread of an earlier run with what is true today, or why it is not touched."""
    name = f"{entry.kind} {entry.number or entry.id}"
    if entry.kind is Kind.COMMENT and mode is not Mode.PULL_REQUEST:
        return Unsaid(name, f"left alone in mode {mode}")
    parts = [_part(entry, told, by_key, expected, measured) for told in entry.told]
    found = tuple(part for part in parts if part is not None)
    if len(found) < len(parts):
        return Unsaid(name, "left as it is: its commits are not measured here")
    return Post(entry.kind, entry.repository, entry.number, entry.key, found)


def _part(
    entry: Entry, told: Told, by_key: Mapping[str, Judged], expected: Mapping[str, str], measured: Measured
) -> Judged | TakenBack | None:
    """What a thread says now of something that it said before; None where nothing can be said."""
    if told.key in expected:
        return TakenBack(told, f"expected: {expected[told.key]}")
    one = by_key.get(told.key)
    if one is None:
        gone = measured.has(told.before.commit) and measured.has(told.after.commit)
        return TakenBack(told, "measured anew, it is not found any more") if gone else None
    numbers = one.addressees.numbers
    if entry.kind is Kind.COMMENT and numbers and entry.number not in numbers:
        return TakenBack(told, "another change is likelier to have done it")
    return one


def _targets(
    one: Judged, mode: Mode, upstream: str, home: str, policy: CommentPolicy
) -> tuple[list[Post], str]:
    verdict = one.group.verdict
    if not one.standing.may_be_said:
        return [], one.standing.state.value
    if mode is Mode.PULL_REQUEST and verdict in policy.pull_request_verdicts and one.addressees.numbers:
        return [
            Post(Kind.COMMENT, upstream, n, thread_key(Kind.COMMENT, upstream, str(n)), (one,))
            for n in one.addressees.numbers
        ], ""
    if verdict not in policy.issue_verdicts:
        return [], f"policy.toml tells nobody of a {VERDICT_WORDS[verdict]}"
    return [issue_of(one, home)], ""


def issue_of(one: Judged, home: str) -> Post:
    """The issue of our own that tracks a group."""
    return Post(Kind.ISSUE, home, 0, thread_key(Kind.ISSUE, home, one.key), (one,))


def trouble_issue(why: str, home: str) -> Post:
    """The one issue that says that the tracker cannot judge; it is closed when it can again."""
    return Post(Kind.ISSUE, home, 0, thread_key(Kind.ISSUE, home, _TROUBLE), (Trouble(why),))


def name_of(told: Told) -> str:
    return f"{told.candidate} on {told.target}, {told.before.label} to {told.after.label}"


def _worst_first(post: Post) -> Post:
    def weight(part: Judged | TakenBack | Trouble) -> tuple[int, float]:
        return part.weight if isinstance(part, Judged) else (len(SEVERITY), 0.0)

    return replace(post, parts=tuple(sorted(post.parts, key=weight)))


def _capped(plan: Plan, max_new: int) -> Plan:
    """Leave the least of the new ones for the next run."""
    waiting = [
        Unsaid(name_of(told), f"waits for the next run: {max_new} new threads a run")
        for post in plan.new[max_new:]
        for told in post.told
    ]
    return Plan(plan.edits, plan.new[:max_new], plan.unsaid + waiting)
