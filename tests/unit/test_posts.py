"""What is said where: new threads, edits, what is taken back, and what nobody is told."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest
from builders import NARROWER, NEW, OLD, finding, history
from github_builders import LIKELY, OURS, THEIRS, group_of, judged, numbered, timed
from history_builders import landed

from scripts.tracker.addressees import Reverts, addressees
from scripts.tracker.errors import TrackerError
from scripts.tracker.groups import FindingGroup
from scripts.tracker.history import CommitRange, LandedCommit
from scripts.tracker.ledger import SCHEMA, Entry, Kind, Progress, thread_key
from scripts.tracker.model import Commit, Verdict
from scripts.tracker.policy import read_policy
from scripts.tracker.posts import Judged, Mode, Plan, Post, TakenBack, plan_posts
from scripts.tracker.pull_requests import CHECKED, SQUASH, UNMERGED, PullRequest
from scripts.tracker.recovery import Measured
from scripts.tracker.standing import State

POLICY = read_policy().comment
NOW = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)


def plan(
    *groups: Judged,
    mode: Mode = Mode.PULL_REQUEST,
    entries: tuple[Entry, ...] = (),
    expected: dict[str, str] | None = None,
) -> Plan:
    measured = Measured(history())
    return plan_posts(groups, expected or {}, entries, measured, mode, (THEIRS, OURS), POLICY)


def entry_of(post: Post) -> Entry:
    return Entry(
        SCHEMA, post.kind, post.repository, post.number, post.key, Progress.SAID, NOW, 5, told=post.told
    )


def where(plan: Plan) -> list[tuple[str, int]]:
    return [(post.kind.value, post.number) for post in plan.new]


def of_verdict(verdict: Verdict) -> FindingGroup:
    return group_of(finding(verdict, NARROWER))


def test_a_pull_request_is_told_and_no_issue_as_well() -> None:
    assert where(plan(judged(4971))) == [("comment", 4971)]


def test_without_a_pull_request_it_is_our_issue() -> None:
    assert where(plan(judged())) == [("issue", 0)]
    assert where(plan(judged(4971), mode=Mode.OWN_ISSUE)) == [("issue", 0)]


@pytest.mark.parametrize("state", [State.SUSPECTED, State.NOT_REPRODUCED, State.RECOVERED])
def test_what_is_not_sure_is_not_said_and_the_reason_is(state: State) -> None:
    found = plan(judged(4971, state))
    assert found.new == []
    assert [unsaid.why for unsaid in found.unsaid] == [state.value]


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Verdict.REGRESSION, [("comment", 4971)]),
        (Verdict.NO_VALID_DATA, [("issue", 0)]),
        (Verdict.COMPILER_WIDE, [("issue", 0)]),
        (Verdict.IMPROVEMENT, []),
        (Verdict.REFERENCE_MOVED, []),
    ],
)
def test_who_is_told_of_which_verdict(verdict: Verdict, expected: list[tuple[str, int]]) -> None:
    assert where(plan(judged(4971, group=of_verdict(verdict)))) == expected


def test_two_groups_of_one_pull_request_are_one_comment_the_worst_first() -> None:
    a = judged(4971, group=group_of(timed(change=0.1)))
    b = judged(4971, group=group_of(replace(timed(change=0.9), candidate="atomic_add_relaxed")))
    [post] = plan(a, b).new
    assert [one.group.candidate for one in post.groups] == ["atomic_add_relaxed", "atomic_add"]


def test_new_threads_are_few_and_the_rest_waits() -> None:
    found = plan(*(judged(group=numbered(n)) for n in range(POLICY.max_new + 3)))
    assert len(found.new) == POLICY.max_new
    assert len(found.unsaid) == 3
    assert all("next run" in unsaid.why for unsaid in found.unsaid)


def test_what_was_said_is_edited_whatever_became_of_it() -> None:
    one = judged(4971)
    [post] = plan(one).new
    for state in State:
        found = plan(judged(4971, state), entries=(entry_of(post),))
        assert found.new == []
        [edit] = found.edits
        assert edit.groups[0].standing.state is state


def part_of(found: Plan) -> object:
    [edit] = found.edits
    [part] = edit.parts
    return part


def test_a_finding_that_is_gone_is_taken_back() -> None:
    [post] = plan(judged(4971)).new
    part = part_of(plan(entries=(entry_of(post),)))
    assert isinstance(part, TakenBack)
    assert "not found any more" in part.why


def test_a_finding_whose_commits_are_not_measured_here_is_left_alone() -> None:
    """Another checkout's ledger must not take back what this one cannot see."""
    [post] = plan(judged(4971, group=numbered(1))).new
    found = plan(entries=(entry_of(post),))
    assert (found.edits, found.new) == ([], [])
    assert "not measured here" in found.unsaid[0].why


def test_an_expected_finding_is_taken_back_with_the_reason() -> None:
    one = judged(4971)
    [post] = plan(one).new
    part = part_of(plan(entries=(entry_of(post),), expected={one.key: "decided in the meeting"}))
    assert isinstance(part, TakenBack)
    assert part.why == "expected: decided in the meeting"


def test_when_another_pull_request_becomes_likelier_the_first_is_told_so() -> None:
    [post] = plan(judged(4971)).new
    found = plan(judged(5000), entries=(entry_of(post),))
    assert where(found) == [("comment", 5000)]
    assert isinstance(part_of(found), TakenBack)


def test_when_github_does_not_answer_what_it_said_once_stands() -> None:
    [post] = plan(judged(4971)).new
    found = plan(judged(), entries=(entry_of(post),))
    assert found.new == []
    assert isinstance(part_of(found), Judged)


def test_comments_are_left_alone_without_their_token() -> None:
    [post] = plan(judged(4971)).new
    found = plan(judged(4971), mode=Mode.OWN_ISSUE, entries=(entry_of(post),))
    assert found.edits == []
    assert where(found) == [("issue", 0)]


def test_an_issue_that_exists_goes_on_beside_the_comment() -> None:
    [issue] = plan(judged()).new
    found = plan(judged(4971), entries=(entry_of(issue),))
    assert where(found) == [("comment", 4971)]
    assert [edit.kind for edit in found.edits] == [Kind.ISSUE]


def test_threads_have_keys_of_their_own() -> None:
    assert thread_key(Kind.COMMENT, THEIRS, "1") == thread_key(Kind.COMMENT, THEIRS.upper(), "1")
    keys = {thread_key(k, r, n) for k in Kind for r in (THEIRS, OURS) for n in ("1", "11")}
    assert len(keys) == 8


class Host:
    """Says which pull request brought a commit."""

    def __init__(self, *answers: PullRequest) -> None:
        self.answers = list(answers)

    def brought(self, commit: str, subject: str) -> PullRequest:
        return self.answers.pop(0)


class Later:
    """A history in which these commits landed after the finding's."""

    def __init__(self, *subjects: str) -> None:
        self.commits = tuple(landed(n, subject) for n, subject in enumerate(subjects))

    def between(self, before: Commit, after: Commit) -> CommitRange:
        if not self.commits:
            raise TrackerError("this history ends too early")
        return CommitRange(self.commits, tuple(1.0 for _ in self.commits), True)

    def pins(self, commit: LandedCommit, path: str) -> tuple[str, str] | None:
        return None


NEWEST = Commit("e" * 40, "3.9.0")


@pytest.mark.parametrize(
    ("scores", "answers", "later", "numbers", "why"),
    [
        ([0.9], [PullRequest(4971, CHECKED)], [], (4971,), "likeliest"),
        ([0.9], [PullRequest(4971, SQUASH)], [], (), SQUASH),
        ([0.9], [PullRequest(None, UNMERGED)], [], (), UNMERGED),
        ([0.06, 0.05], [], [], (), "less than 50%"),
        ([0.5, 0.5], [PullRequest(1, CHECKED), PullRequest(2, CHECKED)], [], (1,), "likeliest"),
        ([0.9], [PullRequest(4971, CHECKED)], ['Revert "Change it (#4971)" (#5000)'], (), "by 5000"),
        ([0.9], [PullRequest(4971, CHECKED)], ['Revert "Change it (#4971)"'], (), "reverted since"),
        ([0.9], [PullRequest(5000, CHECKED)], ['Revert "Change it (#4971)" (#5001)'], (5000,), "likeliest"),
    ],
)
def test_whose_pull_request_is_told(
    scores: list[float],
    answers: list[PullRequest],
    later: list[str],
    numbers: tuple[int, ...],
    why: str,
) -> None:
    suspects = tuple(replace(LIKELY, commit=f"{n:040x}", score=score) for n, score in enumerate(scores))
    group = group_of(timed(suspects=suspects))
    found = addressees(group, Host(*answers), Reverts(Later(*later), NEWEST), POLICY)
    assert found.numbers == numbers
    assert why in found.why


def test_without_suspects_nobody_is_told_and_the_reason_is_said() -> None:
    nobody = replace(timed(), attribution="suspects unknown: no history")
    found = addressees(group_of(nobody), Host(), Reverts(None, None), POLICY)
    assert (found.numbers, "no history" in found.why) == ((), True)
    assert addressees(group_of(timed()), Host(), Reverts(None, None), POLICY).numbers == ()


def test_the_step_of_a_told_group_is_kept() -> None:
    [told] = plan(judged(4971)).new[0].told
    assert (told.before, told.after) == (OLD, NEW)
