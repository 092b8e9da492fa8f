"""Which findings a machine with a GPU is asked about: those that wait for it, the worst of each group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import COMMITS, FINDINGS, TARGET, history, record_document, write_object, write_record
from github_builders import TIMED, answer, timed

from scripts import request_confirmations
from scripts.request_confirmations import main
from scripts.tracker.model import Finding, Verdict
from scripts.tracker.request import read_request
from scripts.tracker.steps import Judgement
from scripts.tracker.workspace import Workspace

WORST = timed(change=0.9, case=replace(TIMED, n_ctx=2048))


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A checkout with the kernels of two commits."""
    found = Workspace(tmp_path)
    cubin = write_object(found.evidence.root, b"cubin")
    for commit in COMMITS[:2]:
        for variant in ("atomic_add", "inline_asm", "none", "support"):
            write_record(
                found.evidence.root, record_document(commit, variant, objects={"cubin": cubin, "ptx": cubin})
            )
    monkeypatch.setattr(request_confirmations, "ROOT", tmp_path)
    monkeypatch.setattr(request_confirmations, "load_history", lambda _: history())
    return found


def ask(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, *findings: Finding, most: int = 20
) -> list[str]:
    out = workspace.root / "requests"
    monkeypatch.setattr(request_confirmations, "judge", lambda _: Judgement(findings=list(findings)))
    monkeypatch.setattr("sys.argv", ["request", "--out", str(out), "--most", str(most)])
    assert main() == 0
    return sorted(path.stem for path in out.glob("*.json"))


def test_of_a_group_the_worst_is_asked_about(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(workspace, monkeypatch, timed(), WORST) == [WORST.id]
    request = read_request(workspace.root / "requests" / f"{WORST.id}.json")
    assert (request.finding, request.target, request.case["n_ctx"]) == (WORST.id, TARGET, 2048)


def test_what_has_an_answer_is_not_asked_again(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(WORST, confirmation=answer(WORST))
    assert ask(workspace, monkeypatch, timed(), asked) == []


@pytest.mark.parametrize(
    "found",
    [timed(Verdict.IMPROVEMENT, -0.4), timed(Verdict.REFERENCE_MOVED), *FINDINGS["regression"][:1]],
    ids=["improvement", "reference moved", "code alone"],
)
def test_what_nobody_would_be_told_or_no_gpu_can_say_is_not_asked(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, found: Finding
) -> None:
    assert ask(workspace, monkeypatch, found) == []


def test_kernels_that_are_not_here_are_said(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(workspace, monkeypatch, timed(after=COMMITS[2])) == []
    assert "cannot be confirmed here" in capsys.readouterr().err


def test_no_more_than_the_gpu_has_time_for(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = replace(timed(Verdict.COMPILER_WIDE), candidate="atomic_add_relaxed", id="0123456789ab")
    assert ask(workspace, monkeypatch, other, WORST, most=1) == [WORST.id]
    assert "1 more wait" in capsys.readouterr().err
