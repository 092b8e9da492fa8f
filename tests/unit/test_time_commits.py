"""The command that plans GPU time: from compiled commits to a plan that the measuring half reads."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import NEW, OLD, record_document, write_lists, write_record

from kernels.plan import Plan
from scripts import time_commits as command
from scripts.tracker.errors import run_command
from scripts.tracker.model import Commit
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
UNCOMPILED = Commit("f" * 40, "3.9.9")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A checkout in which two of three known commits are compiled."""
    space = Workspace(tmp_path)
    for name in ("benchmarks", "kernels"):
        (tmp_path / name).symlink_to(ROOT / name)
    write_lists(space.results, [OLD, NEW, UNCOMPILED])
    for commit in (OLD, NEW):
        write_record(space.evidence.root, record_document(commit))
    monkeypatch.setattr(command, "ROOT", tmp_path)
    return space


@pytest.fixture
def time_commits(
    checkout: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["time_commits", *arguments])
        status = run_command(command.main)
        return status, *capsys.readouterr()

    return run


def test_a_plan_of_all_that_is_compiled(time_commits: Any, tmp_path: Path) -> None:
    path = tmp_path / "plans" / "plan.json"
    status, out, _ = time_commits("--plan-only", str(path))
    assert (status, out) == (0, f"{path}: 2 commits, 10 cases\n")
    plan = Plan.read(path)  # by the measuring half, which runs it
    assert [side.label for side in plan.sides()] == [OLD.label, NEW.label]
    assert len(plan.timed_cases()) == 10
    assert "inline_asm" in plan.variants
    assert (plan.min_blocks, plan.max_blocks, plan.backward_blocks) == (8, 20, 5)
    assert not plan.fresh
    assert not (tmp_path / ".cache" / "sessions").exists()  # nothing was run


def test_what_is_asked_for_is_planned(time_commits: Any, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    words = [
        "--variants",
        "store",
        "none",
        "--head-dim",
        "64",
        "--n-ctx",
        "2048",
        "4096",
        "--blocks",
        "3",
        "4",
        "--budget-s",
        "9",
        "--fresh",
    ]
    status, _, err = time_commits("--plan-only", str(path), "--releases", NEW.label, *words)
    assert status == 0, err
    plan = Plan.read(path)
    assert plan.commits == [[NEW.commit, NEW.label]]
    assert plan.variants == ["store", "none"]
    assert [(case.head_dim, case.n_ctx) for case in plan.timed_cases()] == [(64, 2048), (64, 4096)]
    assert (plan.min_blocks, plan.max_blocks, plan.budget_s, plan.fresh) == (3, 4, 9.0, True)


def test_a_commit_may_be_asked_for_by_its_hash(time_commits: Any, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert time_commits("--plan-only", str(path), "--releases", f"{OLD.commit},{NEW.label}")[0] == 0
    assert [commit for commit, _ in json.loads(path.read_text())["commits"]] == [OLD.commit, NEW.commit]


def test_an_unknown_release_is_named_with_the_remedy(time_commits: Any, tmp_path: Path) -> None:
    status, out, err = time_commits("--plan-only", str(tmp_path / "p"), "--releases", f"{OLD.label} 9.9.9")
    assert (status, out) == (2, "")
    assert err == f'error: unknown: 9.9.9; make track RELEASES="{OLD.label} 9.9.9" first\n'
    assert not (tmp_path / "p").exists()


def test_a_release_that_was_not_compiled_is_named(time_commits: Any, tmp_path: Path) -> None:
    status, _, err = time_commits("--plan-only", str(tmp_path / "p"), "--releases", UNCOMPILED.label)
    assert status == 2
    assert "not compiled yet: 3.9.9; make track does it" in err


def test_a_checkout_that_measured_nothing_says_so(time_commits: Any, checkout: Workspace) -> None:
    (checkout.results / "commits.json").unlink()
    status, _, err = time_commits("--plan-only", "plan.json")
    assert (status, err) == (2, "error: nothing is compiled yet; make track does it\n")


def test_without_a_gpu_environment_the_remedy_is_said(time_commits: Any) -> None:
    status, _, err = time_commits("--python", "/nowhere/python")
    assert status == 2
    assert (
        err
        == "error: /nowhere/python: no such Python; on a machine with a GPU, make .venv-gpu/ready makes it\n"
    )
