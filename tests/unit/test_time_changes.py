"""GPU time of followed commits: what is timed beside what, what costs nothing, and what is kept when it goes
wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from builders import record_document, write_record
from gpu_rig import COMMITS, DATE_MS, MACHINE, VARIANTS, GpuRig

from kernels.plan import Plan
from scripts import record_sessions, time_commits
from scripts.tracker import change_sessions, timing_run
from scripts.tracker.errors import run_command
from scripts.tracker.harness import Suite, describe_suite
from scripts.tracker.judge import judge
from scripts.tracker.measured import load_history
from scripts.tracker.model import Verdict
from scripts.tracker.processes import GPU_LOCK_FILE, only_one
from scripts.tracker.timing_backlog import keep_anchor, read_anchor

REAL = Path(__file__).resolve().parents[2]
SHAPES = ["--n-ctx", "2048", "4096"]


@cache
def described(module: str) -> Suite:
    """The real suites, asked once: each asking starts a Python."""
    return describe_suite(REAL, module, "cuda:90")


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuRig:
    for module in (timing_run, change_sessions):
        monkeypatch.setattr(module, "describe_suite", lambda _, name, __: described(name))
    monkeypatch.setattr(time_commits, "ROOT", tmp_path)
    monkeypatch.setattr(record_sessions, "ROOT", tmp_path)
    return GpuRig(tmp_path)


@pytest.fixture
def run(rig: GpuRig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(*options: str, command: Any = time_commits, **trouble: str) -> tuple[int, str, str]:
        by_label = {COMMITS[int(name[1:])].label: mishap for name, mishap in trouble.items()}
        monkeypatch.setenv("GPU_TROUBLE", json.dumps(by_label))
        words = [*SHAPES, "--python", str(rig.python)] if command is time_commits else []
        monkeypatch.setattr(sys, "argv", ["command", "--commits", *words, *options])
        return run_command(command.main), *capsys.readouterr()

    return run


def asv_rows(rig: GpuRig) -> dict[str, dict[str, Any]]:
    folder = rig.workspace.results / MACHINE
    return {name: json.loads((folder / name).read_text()) for name in rig.timed_files()}


def test_changes_are_timed_beside_their_parent_and_the_rest_costs_nothing(rig: GpuRig, run: Any) -> None:
    c = rig.follow("a", "a", "slow b", "slow b", "slow b", "c")
    status, out, err = run()
    assert (status, err) == (0, "")
    assert "0 changes of code timed, 2 wait for a GPU; 3 commits have their parent's code" in out
    # Newest first; the first session's parent becomes the anchor of all.
    assert rig.labels() == [[c[4].label, c[5].label], [c[4].label, c[1].label, c[2].label]]
    assert read_anchor(rig.workspace.evidence, "cuda:90") == c[4].commit
    assert [len(p["variants"]) for p in rig.sessions()] == [len(VARIANTS)] * 2
    assert sorted({row["commit_hash"] for row in asv_rows(rig).values()}) == [
        c[i].commit for i in (1, 2, 4, 5)
    ]
    assert {row["date"] for row in asv_rows(rig).values()} == {DATE_MS}

    status, out, _ = run()
    assert status == 0
    assert "2 changes of code timed, 0 wait for a GPU; 3 commits have their parent's code" in out
    assert len(rig.sessions()) == 2


def test_what_was_timed_is_judged(rig: GpuRig, run: Any) -> None:
    c = rig.follow("a", "a", "slow b", "slow b", "slow b", "c")
    run()
    history = load_history(rig.workspace)
    judgement = judge(history)
    found = {
        (f.verdict, f.before.label, f.after.label, f.case.n_ctx)
        for f in judgement.findings
        if (f.candidate, f.evidence[-1]) == ("atomic_add", "timing")
    }
    places = ((Verdict.REGRESSION, c[1], c[2]), (Verdict.IMPROVEMENT, c[4], c[5]))
    assert found == {
        (verdict, before.label, after.label, n) for verdict, before, after in places for n in (2048, 4096)
    }
    assert "2 commits share the GPU time of kernels equal to theirs" in history.notes
    assert history.problems == []


def test_a_revert_is_judged_without_a_gpu(rig: GpuRig, run: Any) -> None:
    rig.follow("a", "slow b")
    run()
    rig.follow("a", "slow b", "a")
    status, out, _ = run()
    assert (status, len(rig.sessions())) == (0, 1)
    assert "2 changes of code timed, 0 wait" in out


def test_only_cases_whose_code_differs_are_timed(rig: GpuRig, run: Any) -> None:
    rig.follow("a", {64: "a", 128: "b"})
    assert run()[0] == 0
    [plan] = rig.sessions()
    assert {(case["head_dim"], case["n_ctx"]) for case in plan["cases"]} == {(128, 2048), (128, 4096)}
    assert "1 changes of code timed, 0 wait" in run()[1]


def test_a_limit_and_what_is_left(rig: GpuRig, run: Any) -> None:
    c = rig.follow("a", "b", "c", "d")
    assert run("--limit", "1")[0] == 0
    assert [labels[-1] for labels in rig.labels()] == [c[3].label]
    assert run("--limit", "1")[0] == 0
    assert [labels[-1] for labels in rig.labels()] == [c[3].label, c[2].label]


def test_a_spent_budget_is_said(rig: GpuRig, run: Any) -> None:
    rig.follow("a", "b", "c")
    status, out, _ = run("--budget-s", "1e-9")  # less than two looks at the clock take
    assert status == 1
    assert "the budget is spent: 2 changes wait for the next run" in out
    assert rig.sessions() == []


def test_a_session_that_did_not_end_is_not_recorded_and_goes_on(rig: GpuRig, run: Any) -> None:
    c = rig.follow("a", "b", "c")
    status, _, _ = run(c2="budget")
    assert status == 1
    assert {row["commit_hash"] for row in asv_rows(rig).values()} == {c[0].commit, c[1].commit}
    assert run()[0] == 0
    outs = [plan["out"] for plan in rig.sessions() if plan["commits"][-1][0] == c[2].commit]
    assert outs[0] == outs[1]


def test_a_stopped_session_stops_the_run(rig: GpuRig, run: Any) -> None:
    rig.follow("a", "b", "c")
    assert run(c2="stopped")[0] == 130
    assert len(rig.sessions()) == 1


def test_one_bad_commit_does_not_keep_the_others_from_the_gpu(rig: GpuRig, run: Any) -> None:
    rig.follow("a", "b", "c", "d")
    status, _, _ = run(c3="refused")
    assert (status, len(rig.sessions())) == (1, 3)
    assert len(rig.timed_files()) == 4


def test_three_in_a_row_are_the_machine(rig: GpuRig, run: Any) -> None:
    rig.follow("a", "b", "c", "d", "e")
    status, _, err = run(**{f"c{n}": "refused" for n in range(1, 5)})
    assert (status, len(rig.sessions())) == (2, 3)
    assert "stopped after 3 sessions in a row" in err


def test_fresh_times_again_and_keeps_what_was(rig: GpuRig, run: Any) -> None:
    rig.follow("a", "b")
    run()
    assert run("--fresh")[0] == 0
    assert len({plan["out"] for plan in rig.sessions()}) == 2
    assert rig.sessions()[1]["fresh"] is True


def test_what_came_from_an_earlier_session_is_not_recorded_twice(rig: GpuRig, run: Any) -> None:
    rig.follow("a", "b")
    status, out, _ = run(c1="reused")
    assert status == 0
    assert "its kernels were timed together before" in out
    assert rig.timed_files() == []


def test_a_damaged_result_is_named_and_made_again_from_its_session(rig: GpuRig, run: Any) -> None:
    rig.follow("a", "b")
    run()
    before = asv_rows(rig)
    path = rig.workspace.results / MACHINE / rig.timed_files()[1]
    path.write_text(path.read_text()[:-30])
    status, _, err = run()
    assert status == 0
    assert f"warning: {path}: not a whole asv result file" in err
    assert asv_rows(rig) == before


def test_another_run_is_kept_out_and_named(rig: GpuRig, run: Any) -> None:
    rig.follow("a", "b")
    with only_one(rig.workspace, GPU_LOCK_FILE):
        status, _, err = run()
    assert status == 2
    assert "wait for it or stop it" in err
    with only_one(rig.workspace):  # a driver that compiles is no obstacle
        assert run()[0] == 0


def test_an_anchor_of_long_ago_is_in_every_session_and_has_no_result(rig: GpuRig, run: Any) -> None:
    c = rig.follow("a", "b", "c", "d")
    keep_anchor(rig.workspace.evidence, "cuda:90", c[0].commit)
    run("--limit", "1")
    assert rig.labels() == [[c[0].label, c[2].label, c[3].label]]
    assert {row["commit_hash"] for row in asv_rows(rig).values()} == {c[2].commit, c[3].commit}


@pytest.mark.parametrize("content", ["../../etc", "\x1b[2J", ""])
def test_a_damaged_anchor_is_named(rig: GpuRig, run: Any, content: str) -> None:
    rig.follow("a", "b")
    path = rig.workspace.evidence.root / "anchor-cuda-90"
    path.write_text(content)
    status, _, err = run()
    assert status == 2
    assert f"{path}: not the anchor" in err
    assert "delete it" in err
    assert rig.sessions() == []


def test_an_anchor_whose_kernels_are_gone_is_set_anew(rig: GpuRig, run: Any) -> None:
    c = rig.follow("a", "b")
    keep_anchor(rig.workspace.evidence, "cuda:90", "d" * 40)
    assert run()[0] == 0
    assert rig.labels() == [[c[0].label, c[1].label]]


def test_another_machine_needs_the_packed_folder_alone(
    rig: GpuRig, run: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    c = rig.follow("a", "a", "slow b", "c")
    status, out, _ = run("--plan-only", str(tmp_path / "gpu"))
    assert status == 0
    plans = sorted((tmp_path / "gpu" / "plans").iterdir())
    assert [p.name for p in plans] == [f"001-{c[3].label}.json", f"002-{c[2].label}.json"]
    assert str(plans[0]) in out
    assert rig.sessions() == []
    away = tmp_path_factory.mktemp("away")
    shutil.copytree(tmp_path / "gpu", away / "gpu")
    # The texts stay here: a GPU needs the cubins alone.
    objects = [p.name for p in (away / "gpu" / "store" / "objects").rglob("*.zst")]
    cubins = {f"{v} {d} same" for v in [*VARIANTS, "support"] for d in (64, 128) if v != "atomic_add"}
    assert len(objects) == len(cubins) + 2 * len({"a", "slow b", "c"})
    for path in plans:
        plan = Plan.read(path)  # by the measuring half
        assert not any(Path(where).is_absolute() for where in (plan.store, plan.out, str(plan.archive)))
        command = [str(rig.python), "-m", "benchmarks.session", f"gpu/plans/{path.name}"]
        subprocess.run(command, cwd=away, check=True)
    shutil.copytree(away / "gpu" / "sessions", tmp_path / "back")
    status, out, _ = run(str(tmp_path / "back"), command=record_sessions)
    assert status == 0
    assert len(rig.timed_files()) == 4
    first = asv_rows(rig)
    assert run(str(tmp_path / "back"), command=record_sessions)[0] == 0
    assert asv_rows(rig) == first
    assert "2 changes of code timed, 0 wait" in run()[1]


def test_a_damaged_session_does_not_keep_the_others_back(rig: GpuRig, run: Any) -> None:
    rig.follow("a", "b", "c")
    run()
    [folder, _] = sorted(rig.workspace.sessions.iterdir())
    next(folder.glob("hd*.json")).write_text("{")
    shutil.rmtree(rig.workspace.results / MACHINE)
    status, _, err = run(str(rig.workspace.sessions), command=record_sessions)
    assert status == 1
    assert str(folder) in err
    assert len(rig.timed_files()) == 2


def test_kernels_that_were_made_again_meanwhile_are_not_those_that_were_timed(rig: GpuRig, run: Any) -> None:
    c = rig.follow("a", "b")
    run()
    [folder] = rig.workspace.sessions.iterdir()
    shutil.rmtree(rig.workspace.results / MACHINE)
    record = record_document(c[1], "atomic_add")
    record["kernels"][0]["identity"] = "other"
    write_record(rig.workspace.evidence.root, record)
    status, _, err = run(str(folder), command=record_sessions)
    assert status == 1
    assert "what the session timed is not in" in err
    assert rig.timed_files() == []


def test_a_commit_that_left_main_is_not_timed(rig: GpuRig, run: Any) -> None:
    """Measured, pushed away: not in the order, so nobody's neighbour."""
    rig.follow("a", "b", "c")
    commits = rig.workspace.results / "commits.json"
    kept = [entry for entry in json.loads(commits.read_text()) if entry["commit"] != COMMITS[1].commit]
    commits.write_text(json.dumps(kept))
    assert run()[0] == 0
    assert rig.labels() == [[COMMITS[0].label, COMMITS[2].label]]


@pytest.mark.parametrize("options", [("--limit", "0"), ("--releases", "3.1.0"), ("--variants", "store")])
def test_options_that_make_no_sense(
    rig: GpuRig, run: Any, options: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    rig.follow("a", "b")
    with pytest.raises(SystemExit):
        run(*options)
    assert "error: --" in capsys.readouterr().err
