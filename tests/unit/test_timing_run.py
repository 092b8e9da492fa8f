"""From a choice of commits to a plan, and how the measuring half is started with it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import NEW, OLD, TARGET, record_document, write_record

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Commit
from scripts.tracker.processes import run_gpu_session
from scripts.tracker.timing_run import Effort, make_plan, suite_choices
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
EFFORT = Effort(8, 20, 5, 600.0)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Two compiled commits."""
    space = Workspace(tmp_path)
    for commit in (OLD, NEW):
        write_record(space.evidence.root, record_document(commit))
    return space


def plan_of(space: Workspace, commits: tuple[Commit, ...] = (OLD, NEW), **changes: Any) -> dict[str, Any]:
    effort = replace(EFFORT, **{k: changes.pop(k) for k in list(changes) if hasattr(EFFORT, k)})
    choice = {"variants": ["atomic_add"], "head_dims": [64, 128], "n_ctx": [2048, 4096], **changes}
    return make_plan(space, list(commits), effort=effort, **choice)


def program(path: Path, text: str) -> Path:
    """A Python of its own, as far as the caller can see."""
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


# ---- the plan ------------------------------------------------------------------------------------------


def test_a_plan_has_every_commit_and_shape(workspace: Workspace) -> None:
    plan = plan_of(workspace)
    assert plan["commits"] == [[OLD.commit, OLD.label], [NEW.commit, NEW.label]]
    shapes = [(case["head_dim"], case["n_ctx"]) for case in plan["cases"]]
    assert shapes == [(64, 2048), (64, 4096), (128, 2048), (128, 4096)]
    assert plan["target"] == TARGET
    assert plan["store"] == str(workspace.evidence.root)
    assert plan["archive"] == str(workspace.sessions)
    assert Path(plan["out"]).parent == workspace.sessions


def test_a_commit_that_was_not_compiled_is_named(workspace: Workspace) -> None:
    with pytest.raises(TrackerError, match=r"not compiled yet: 9\.9\.9; make track does it"):
        plan_of(workspace, (OLD, Commit("f" * 40, "9.9.9")))


def test_a_plan_without_commits_is_none(workspace: Workspace) -> None:
    with pytest.raises(TrackerError, match="nothing is compiled yet; make track does it"):
        plan_of(workspace, ())


def test_the_same_choice_has_the_same_folder(workspace: Workspace) -> None:
    assert plan_of(workspace)["out"] == plan_of(workspace)["out"]
    # More seconds go on where fewer of them stopped.
    assert plan_of(workspace)["out"] == plan_of(workspace, budget_s=9.0)["out"]


@pytest.mark.parametrize(
    "changes",
    [
        {"commits": (OLD,)},
        {"commits": (NEW, OLD)},
        {"variants": ["store"]},
        {"head_dims": [64]},
        {"n_ctx": [2048]},
        {"min_blocks": 9},
        {"max_blocks": 21},
        {"backward_blocks": 0},
    ],
)
def test_another_choice_has_another_folder(workspace: Workspace, changes: dict[str, Any]) -> None:
    assert plan_of(workspace)["out"] != plan_of(workspace, **changes)["out"]


def test_a_fresh_measurement_lies_beside_the_finished_ones(workspace: Workspace) -> None:
    first = plan_of(workspace)["out"]

    def fresh() -> str:
        plan = plan_of(workspace, fresh=True)
        assert plan["fresh"]
        return str(plan["out"])

    second = fresh()
    assert second != first
    Path(second).mkdir(parents=True)
    files = [Path(second) / f"hd{number}.json" for number in range(4)]
    for path in files[:3]:
        path.write_text('{"complete": true}')
    files[3].write_text('{"complete": false}')
    assert fresh() == second  # one that was interrupted goes on
    files[3].write_text('{"comp')
    assert fresh() == second
    files[3].write_text('{"complete": true}')
    assert fresh() not in (first, second)


def test_the_choices_are_those_of_the_suite() -> None:
    variants, n_ctx, head_dims = suite_choices(ROOT)
    assert {"atomic_add", "inline_asm"} <= set(variants)
    assert n_ctx == [2048, 4096, 8192, 16384, 32768]
    assert head_dims == [64, 128]


# ---- the start -----------------------------------------------------------------------------------------


def test_without_its_python_the_remedy_is_said(workspace: Workspace, tmp_path: Path) -> None:
    plan = plan_of(workspace)
    with pytest.raises(
        TrackerError, match=r"no such Python; on a machine with a GPU, make .venv-gpu/ready makes it"
    ):
        run_gpu_session(workspace.root, tmp_path / ".venv-gpu" / "bin" / "python", plan, [])
    assert not workspace.sessions.exists()


def test_the_session_gets_the_plan_and_gives_its_status(workspace: Workspace, tmp_path: Path) -> None:
    said = tmp_path / "said.json"
    python = program(
        tmp_path / "python",
        "import json, os, sys\n"
        f"json.dump([os.getcwd(), *sys.argv[1:]], open({str(said)!r}, 'w'))\n"
        "sys.exit(3)\n",
    )
    plan = plan_of(workspace)
    assert run_gpu_session(workspace.root, python, plan, ["--gpus", "all"]) == 3
    folder, *words = json.loads(said.read_text())
    assert folder == str(tmp_path)
    assert words == ["-m", "benchmarks.session", f"{plan['out']}/plan.json", "--gpus", "all"]
    assert json.loads((Path(plan["out"]) / "plan.json").read_text()) == plan


def test_a_stopped_command_lets_the_session_end_by_itself(workspace: Workspace, tmp_path: Path) -> None:
    """Killed at once, it would leave its workers on the GPU, and lose the blocks that they hold."""
    session = program(
        tmp_path / "python",
        "import pathlib, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "try:\n"
        "    (here / 'started').touch()\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(1)\n"  # longer than subprocess.run would wait
        "    (here / 'written').touch()\n",
    )
    caller = (
        "import pathlib, sys\n"
        "from scripts.tracker.errors import run_command\n"
        "from scripts.tracker.processes import run_gpu_session\n"
        "from scripts.tracker.workspace import Workspace\n"
        f"space = Workspace(pathlib.Path({str(tmp_path)!r}))\n"
        f"plan = {{'out': {str(tmp_path / 'out')!r}}}\n"
        f"python = pathlib.Path({str(session)!r})\n"
        "sys.exit(run_command(lambda: run_gpu_session(space.root, python, plan, [])))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", caller], cwd=ROOT, stderr=subprocess.PIPE)
    deadline_s = time.monotonic() + 30
    while not (tmp_path / "started").exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"interrupted" in said
    assert (tmp_path / "written").exists()
