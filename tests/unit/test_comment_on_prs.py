"""The command: dry run by default, then issues, then pull requests; and what it says of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from builders import (
    FACTS,
    NARROWER,
    NEW,
    OLD,
    asv_document,
    history,
    write_asv,
    write_lists,
)
from github_builders import BOT, HOME_BOT, LIKELY, OURS, THEIRS, Clock, answer, key_pair, publisher, timed

from scripts import comment_on_prs
from scripts.comment_on_prs import main
from scripts.tracker.confirmation import read_confirmations, with_confirmations
from scripts.tracker.errors import TrackerError
from scripts.tracker.expected import EXPECTED, ExpectedChange
from scripts.tracker.judge import judge
from scripts.tracker.ledger import Kind, Ledger
from scripts.tracker.measured import History, load_history
from scripts.tracker.model import Decision, Finding
from scripts.tracker.posts import Mode
from scripts.tracker.publish import Publisher
from scripts.tracker.saying import Said, judge_groups, say_all, say_trouble
from scripts.tracker.steps import Judgement
from scripts.tracker.workspace import CommitsWorkspace, Workspace
from tests.github_double.server import Fault, GitHubDouble

PR = 4971
SURE = replace(timed(suspects=(LIKELY,)), codegen_changes=(NARROWER,))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
def speaker(double: GitHubDouble, workspace: Workspace) -> Publisher:
    double.add_pull(THEIRS, PR, LIKELY.commit, title="@everyone <b>(#1)</b>")
    return publisher(double, Ledger(workspace.ledger), Clock())


def confirm(workspace: Workspace, found: Finding, decision: Decision, change: float = 0.4) -> None:
    workspace.confirmations.mkdir(parents=True, exist_ok=True)
    path = workspace.confirmations / f"{found.id}.json"
    path.write_bytes(msgspec.json.encode(answer(found, decision, change)))


def run(
    workspace: Workspace,
    speaker: Publisher,
    *findings: Finding,
    mode: Mode = Mode.PULL_REQUEST,
    past: History | None = None,
    expected: tuple[tuple[Finding, str], ...] = (),
) -> Said:
    # As `judge` puts them there.
    answered = with_confirmations(
        list(findings), read_confirmations(workspace.confirmations), lambda *_: None
    )
    judgement = Judgement(findings=answered, expected=list(expected))
    known = past or history()
    host = speaker.hosts[Kind.COMMENT] if mode is Mode.PULL_REQUEST else None
    groups = judge_groups(workspace, judgement, known, host, THEIRS)
    return say_all(groups, known, speaker, mode, (THEIRS, OURS))


def test_a_confirmed_finding_lives_and_ends(
    double: GitHubDouble, workspace: Workspace, speaker: Publisher
) -> None:
    """Suspected, confirmed, refuted: nothing, a comment, the same comment edited."""
    found = replace(SURE, codegen_changes=())
    assert run(workspace, speaker, found).outcomes == []
    confirm(workspace, found, Decision.DIFFERENT)
    run(workspace, speaker, found)
    [first] = double.bodies(THEIRS, PR, BOT)
    assert "### Regression: `atomic_add`" in first
    assert "different in 2 sessions" in first
    confirm(workspace, found, Decision.SAME, 0.001)
    run(workspace, speaker, found)
    [second] = double.bodies(THEIRS, PR, BOT)
    assert second.splitlines()[0] == first.splitlines()[0]
    assert "**Not reproduced.**" in second
    assert double.issues[OURS] == {}


def test_a_locked_pull_request_is_told_in_our_issue(
    double: GitHubDouble, workspace: Workspace, speaker: Publisher
) -> None:
    double.issues[THEIRS][PR]["locked"] = True
    said = run(workspace, speaker, SURE)
    assert [outcome.result.value for outcome in said.outcomes] == ["the conversation is locked", "created"]
    assert said.complete
    [issue] = double.issues[OURS].values()
    assert issue["title"] == "Regression: atomic_add on cuda:90, 3.1.0 to 3.2.0"
    assert issue["user"]["login"] == HOME_BOT


def test_a_token_that_may_write_nowhere_is_said(
    double: GitHubDouble, workspace: Workspace, speaker: Publisher
) -> None:
    double.tokens |= {"app": (BOT, set()), "home": (HOME_BOT, set())}
    said = run(workspace, speaker, SURE)
    assert not said.complete
    assert sum("the token may not write there" in line for line in said.lines) == 2


def test_the_reason_why_no_pull_request_is_told_is_said(workspace: Workspace, speaker: Publisher) -> None:
    vague = replace(SURE, suspects=(replace(LIKELY, score=0.06),))
    said = run(workspace, speaker, vague)
    assert any("6.0% of its score, less than 50%" in line for line in said.lines)
    assert [outcome.post.kind for outcome in said.outcomes] == [Kind.ISSUE]


def test_an_expected_change_takes_back_what_was_said(
    double: GitHubDouble, workspace: Workspace, speaker: Publisher
) -> None:
    run(workspace, speaker, SURE)
    run(workspace, speaker, expected=((SURE, "decided in the meeting"),))
    [body] = double.bodies(THEIRS, PR, BOT)
    assert "**No longer claimed**: `expected: decided in the meeting`" in body


def test_hostile_titles_reach_nobody(double: GitHubDouble, workspace: Workspace, speaker: Publisher) -> None:
    hostile = replace(SURE, suspects=(replace(LIKELY, subject="@everyone <script> fixes #1 `"),))
    run(workspace, speaker, hostile)
    [body] = double.bodies(THEIRS, PR, BOT)
    assert "`` @everyone <script> fixes #1 ` ``" in body


def test_a_broken_tracker_says_so_and_that_it_works_again(double: GitHubDouble, speaker: Publisher) -> None:
    assert "nothing to take back" in say_trouble("", speaker, OURS)
    assert "created" in say_trouble("results/x.json: damaged", speaker, OURS)
    [issue] = double.issues[OURS].values()
    assert "> `results/x.json: damaged`" in issue["body"]
    assert "edited" in say_trouble("", speaker, OURS)
    assert issue["state"] == "closed"


def write_results(workspace: Workspace) -> None:
    """Two commits of which the second writes dQ narrower."""
    write_lists(workspace.results)
    for commit, width in ((OLD, 4), (NEW, 1)):
        table = {v: {"dq_vector_width": float(width if v == "atomic_add" else 4)} for v in FACTS}
        write_asv(workspace.results, asv_document(commit, table))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The command's own checkout, without anybody's token."""
    monkeypatch.setattr(comment_on_prs, "ROOT", tmp_path)
    for name in ("GITHUB_TOKEN", "GITHUB_REPOSITORY", "GITHUB_STEP_SUMMARY", "ATOMWATCH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    found = Workspace(tmp_path)
    write_results(found)
    return found


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["comment_on_prs", *arguments])
    return main()


def test_a_dry_run_writes_files_and_the_summary(
    checkout: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert call(monkeypatch) == 0
    [comment] = (checkout.report / "comments").glob("*.md")
    assert "narrower writes of dQ" in comment.read_text()
    assert (tmp_path / "summary.md").read_text() == comment.read_text()
    assert not checkout.ledger.exists()


def test_own_issue_end_to_end(
    checkout: Workspace,
    double: GitHubDouble,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    double.add_repository(OURS)
    double.tokens["home"] = (HOME_BOT, {OURS})
    for name, value in {
        "GITHUB_REPOSITORY": OURS,
        "GITHUB_TOKEN": "home",
        "ATOMWATCH_HOME_LOGIN": HOME_BOT,
        "GITHUB_API_URL": double.url,
    }.items():
        monkeypatch.setenv(name, value)
    assert call(monkeypatch, "--mode", "own-issue") == 0
    assert call(monkeypatch, "--mode", "own-issue") == 0
    assert [issue["title"] for issue in double.issues[OURS].values()] == [
        "Regression: atomic_add on cuda:90, 3.1.0 to 3.2.0"
    ]
    assert "issue 1: unchanged" in capsys.readouterr().out
    next(checkout.results.glob("codegen-*/*.json")).write_text("{")
    with pytest.raises(TrackerError):
        call(monkeypatch, "--mode", "own-issue")
    assert [issue["title"] for issue in double.issues[OURS].values()][1:] == ["atomwatch cannot judge"]


def test_the_commits_of_main_are_another_history(
    checkout: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(TrackerError, match="nothing is measured yet"):
        call(monkeypatch, "--commits")
    of_main = CommitsWorkspace(tmp_path)
    write_results(of_main)
    assert call(monkeypatch, "--commits") == 0
    assert len(list((of_main.report / "comments").glob("*.md"))) == 1
    assert not checkout.report.exists()


@pytest.mark.parametrize("why", ["never installed", "suspended"])
def test_an_app_that_was_taken_away_is_a_no_and_our_issue_has_it(
    checkout: Workspace,
    double: GitHubDouble,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    why: str,
) -> None:
    double.add_repository(OURS)
    double.add_repository(THEIRS)
    double.tokens["home"] = (HOME_BOT, {OURS})
    private, public = key_pair()
    double.app = (7, public)
    if why == "suspended":
        double.installations[THEIRS] = 3
        fault = Fault("POST", "access_tokens", status=403, message="This installation has been suspended")
        double.faults.append(fault)
    for name, value in {
        "GITHUB_REPOSITORY": OURS,
        "GITHUB_TOKEN": "home",
        "ATOMWATCH_HOME_LOGIN": HOME_BOT,
        "ATOMWATCH_LOGIN": BOT,
        "ATOMWATCH_APP_ID": "7",
        "ATOMWATCH_APP_KEY": private,
        "GITHUB_API_URL": double.url,
    }.items():
        monkeypatch.setenv(name, value)
    assert call(monkeypatch, "--mode", "pull-request") == 0
    assert "no pull request is told, the App is not installed" in capsys.readouterr().err
    assert len(double.issues[OURS]) == 1


def test_what_is_expected_is_no_finding(checkout: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    change = ExpectedChange("atomic_add", "3.1.0", "3.2.0", "meant so", "a maintainer")
    idle = ExpectedChange("store", "3.1.0", "3.2.0", "meant so", "a maintainer")
    monkeypatch.setattr("scripts.tracker.judge.read_expected", lambda: [change, idle])
    past = load_history(checkout)
    judgement = judge(past)
    assert judgement.findings == []
    assert judgement.counts[EXPECTED] == len(judgement.expected) == 2
    assert {reason for _, reason in judgement.expected} == {"meant so"}
    assert "expected_changes.toml: store, 3.2.0: quiets nothing" in past.notes
    groups = judge_groups(checkout, judgement, past, None)
    assert (groups.judged, list(groups.expected.values())) == ([], ["meant so"])


@pytest.mark.parametrize("mode", ["own-issue", "pull-request"])
def test_what_the_environment_lacks_is_named(
    checkout: Workspace, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    with pytest.raises(TrackerError, match="GITHUB_REPOSITORY is not in the environment"):
        call(monkeypatch, "--mode", mode)
