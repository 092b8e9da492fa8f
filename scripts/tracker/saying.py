"""From a judgement to what is said: groups with their standing, the plan, and its execution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from scripts.tracker.addressees import Addressees, CheckedPullRequests, Reverts, addressees
from scripts.tracker.comment import Renderer
from scripts.tracker.groups import FindingGroup, group_findings
from scripts.tracker.ledger import Kind
from scripts.tracker.measured import History
from scripts.tracker.policy import Policy, read_policy
from scripts.tracker.posts import Judged, Mode, Plan, Post, Text, issue_of, name_of, plan_posts, trouble_issue
from scripts.tracker.publish import UNHEARD, Outcome, Publisher, Result
from scripts.tracker.pull_requests import MergedPullRequests, PullLookup
from scripts.tracker.recovery import Measured
from scripts.tracker.standing import Standing, group_key, standing
from scripts.tracker.steps import Judgement
from scripts.tracker.workspace import Workspace

_NOT_ASKED = Addressees((), "nobody's pull request is asked for in this mode")


@dataclass(frozen=True, slots=True)
class Groups:
    """``expected``: reason by group key, of what expected_changes.toml quiets as a whole."""

    judged: list[Judged]
    expected: dict[str, str]
    measured: Measured
    policy: Policy


@dataclass(slots=True)
class Said:
    """What became of a run. ``lines``: for people. ``complete``: all that should be said is."""

    outcomes: list[Outcome] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    complete: bool = True


def judge_groups(
    workspace: Workspace,
    judgement: Judgement,
    history: History,
    host: PullLookup | None,
    upstream: str = "",
) -> Groups:
    """Every group with how well it stands. ``host``: asked for pull requests; None asks nobody."""
    policy, measured = read_policy(), Measured(history)
    # Those of today's kernels: `judge` has put them beside their findings.
    answers = {f.id: f.confirmation for f in judgement.findings if f.confirmation is not None}
    newest = history.commits[-1] if history.commits else None
    reverts = Reverts(history.triton, newest)
    pull_requests = MergedPullRequests(host, upstream) if host else None
    judged = []
    for group in group_findings([f for f in judgement.findings if f.verdict.is_public]):
        stands = standing(group, answers, measured, policy)
        asked = stands.may_be_said and group.verdict in policy.comment.pull_request_verdicts
        to = _addressees(group, pull_requests if asked else None, reverts, policy)
        judged.append(Judged(group, stands, to))
    left = {one.key for one in judged}
    by_finding = {finding.id: reason for finding, reason in judgement.expected}
    quiet = group_findings([finding for finding, _ in judgement.expected])
    expected = {group_key(g): by_finding[g.findings[0].id] for g in quiet if group_key(g) not in left}
    return Groups(judged, expected, measured, policy)


def _addressees(
    group: FindingGroup, pull_requests: CheckedPullRequests | None, reverts: Reverts, policy: Policy
) -> Addressees:
    if pull_requests is None:
        return _NOT_ASKED
    return addressees(group, pull_requests, reverts, policy.comment)


def standings_of(workspace: Workspace, judgement: Judgement, history: History) -> dict[str, Standing]:
    """How well each group stands, without asking anybody."""
    groups = judge_groups(workspace, judgement, history, None)
    return {one.key: one.standing for one in groups.judged}


def say_all(
    groups: Groups, history: History, publisher: Publisher, mode: Mode, repositories: tuple[str, str]
) -> Said:
    """Carry out the plan; what a pull request does not take is said in our own issue."""
    plan = plan_posts(
        groups.judged,
        groups.expected,
        publisher.ledger.entries(),
        groups.measured,
        mode,
        repositories,
        groups.policy.comment,
    )
    render = Renderer(history, groups.measured, repositories[1]).thread
    said = Said()
    for post in [*plan.edits, *plan.new]:
        _carry_out(post, render, publisher, said, repositories[1])
    said.lines += [f"not said: {unsaid.what}: {unsaid.why}" for unsaid in plan.unsaid]
    said.lines += _reasons(groups, plan)
    return said


def say_trouble(why: str, publisher: Publisher, home: str) -> str:
    """Say that the tracker cannot judge, or, with an empty ``why``, that it can again."""
    render = Renderer(History(), Measured(History()), home).thread
    outcome = publisher.publish(trouble_issue(why, home), render)
    return f"issue about the tracker itself: {outcome.result.value}"


def _carry_out(
    post: Post, render: Callable[[Post], Text], publisher: Publisher, said: Said, home: str
) -> None:
    if any(outcome.post.key == post.key for outcome in said.outcomes):
        return
    outcome = publisher.publish(post, render)
    said.outcomes.append(outcome)
    where = f"pull request {post.number}" if post.kind is Kind.COMMENT else f"issue {outcome.id or '(none)'}"
    why = f" ({outcome.why})" if outcome.why else ""
    said.lines.append(f"{where}: {outcome.result.value}{why}: {'; '.join(map(name_of, post.told))}")
    if outcome.result in UNHEARD and post.kind is Kind.COMMENT:
        for one in post.groups:
            if one.standing.may_be_said:
                _carry_out(issue_of(one, home), render, publisher, said, home)
    elif outcome.result in (Result.UNKNOWN, *UNHEARD) and outcome.result is not Result.SILENCED:
        said.complete = False


def _reasons(groups: Groups, plan: Plan) -> list[str]:
    """Why a claim goes to an issue and to no pull request."""
    issues = {told.key for post in [*plan.edits, *plan.new] if post.kind is Kind.ISSUE for told in post.told}
    return [
        f"no pull request told: {name_of(one.told)}: {one.addressees.why}"
        for one in groups.judged
        if one.key in issues and not one.addressees.numbers
    ]
