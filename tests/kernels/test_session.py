"""The supervisor of a session: who times what, what a lost worker costs, and how it stops. Workers, GPUs and
their telemetry are fakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import types
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from sessions import CASE, DEVICE, NEW, case_file, fill_store, plan, plan_document, put_record

from benchmarks import session
from kernels.plan import Plan, TimedCase

ROOT = Path(__file__).resolve().parents[2]
CASES = [TimedCase(64, True, "fp16", n_ctx) for n_ctx in (2048, 4096, 8192)]
GPUS = ["GPU-1", "GPU-2"]


def describe(gpu: str) -> dict[str, Any]:
    return {**DEVICE, "uuid": gpu}


class Spawn:
    """Workers that end with the given statuses, one after the other. A status of 75 names a culprit first."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)
        self.plans: list[Plan] = []
        self.excluded: list[dict[str, str]] = []

    def __call__(self, command: list[str], gpu: str, deadline_s: float) -> int:
        assert command[:3] == [sys.executable, "-m", "benchmarks.session"]
        assert command[4] == "--worker"
        state = Path(command[5])
        self.plans.append(Plan.read(Path(command[3])))
        assert deadline_s > self.plans[-1].budget_s
        known = json.loads(state.read_text()) if state.exists() else {}
        self.excluded.append(known)
        status = self._statuses.pop(0)
        if status == 75:
            state.write_text(json.dumps({**known, f"kernel {len(known)}": "hung"}))
        return status


# ---- workers that are lost -----------------------------------------------------------------------------


def test_each_start_leaves_out_one_kernel_more(tmp_path: Path) -> None:
    spawn = Spawn(75, 75, 0)
    assert session._supervise(plan(tmp_path), "GPU-1", [CASE], spawn) == 0
    assert [len(excluded) for excluded in spawn.excluded] == [0, 1, 2]
    assert {p.gpus for p in spawn.plans} == {("GPU-1",)}


def test_a_new_session_tries_every_kernel_again(tmp_path: Path) -> None:
    session._supervise(plan(tmp_path), "GPU-1", [CASE], Spawn(75, 0))
    spawn = Spawn(0)
    session._supervise(plan(tmp_path), "GPU-1", [CASE], spawn)
    assert spawn.excluded == [{}]


@pytest.mark.parametrize("status", [0, 1, 130])
def test_any_other_end_is_the_sessions_end(tmp_path: Path, status: int) -> None:
    assert session._supervise(plan(tmp_path), "GPU-1", [CASE], Spawn(status)) == status


def test_all_starts_together_have_one_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.0, 40.0, 200.0])
    monkeypatch.setattr(session.time, "monotonic", lambda: next(now))
    spawn = Spawn(75, 75, 0)
    session._supervise(plan(tmp_path, budget_s=100.0), "GPU-1", [CASE], spawn)
    assert [p.budget_s for p in spawn.plans] == [100.0, 60.0, 1.0]


# ---- who times what ------------------------------------------------------------------------------------


def three_cases(tmp_path: Path, **changes: Any) -> Plan:
    fill_store(tmp_path)
    return plan(tmp_path, cases=[asdict(case) for case in CASES], **changes)


def test_the_first_gpu_times_all_unless_asked_otherwise(tmp_path: Path) -> None:
    left = session.shares(three_cases(tmp_path), GPUS, describe)
    assert {gpu: set(cases) for gpu, cases in left.items()} == {"GPU-1": set(CASES)}


def test_cases_go_whole_to_one_gpu_each(tmp_path: Path) -> None:
    left = session.shares(three_cases(tmp_path, gpus=GPUS), GPUS, describe)
    assert set(left) == set(GPUS)
    assert sorted((c for share in left.values() for c in share), key=lambda c: c.n_ctx) == CASES


def test_an_unknown_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no GPU GPU-7 here; visible: GPU-1, GPU-2"):
        session.shares(three_cases(tmp_path, gpus=["GPU-1", "GPU-7"]), GPUS, describe)


def test_what_is_done_is_not_shared_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of = three_cases(tmp_path, gpus=["GPU-1"])
    case_file(of, kernel=4, complete=True).write()
    left = session.shares(of, GPUS, describe)
    assert set(left["GPU-1"]) == set(CASES[1:])
    assert "2 cases to time, 1 done before, 0 timed by an earlier session" in capsys.readouterr().err
    # On the other card it is not done: times of different GPUs are never mixed.
    assert len(session.shares(three_cases(tmp_path, gpus=["GPU-2"]), GPUS, describe)["GPU-2"]) == 3


def test_a_gpu_with_nothing_to_do_gets_no_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill_store(tmp_path)
    archived = plan(tmp_path, out=str(tmp_path / "sessions" / "first"))
    case_file(archived, kernel=4, backward=2, complete=True).write()
    of = plan(tmp_path, archive=str(tmp_path / "sessions"))
    assert session.shares(of, GPUS, describe) == {}
    assert "0 cases to time, 0 done before, 1 timed by an earlier session" in capsys.readouterr().err


def test_a_damaged_record_does_not_keep_the_other_cases_from_a_worker(tmp_path: Path) -> None:
    """The worker names it, and times the rest."""
    of = three_cases(tmp_path, archive=str(tmp_path / "sessions"))
    put_record(tmp_path, NEW, "none").write_text("{")
    assert len(session.shares(of, GPUS, describe)["GPU-1"]) == 3


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs, as far as NVML says."""
    telemetry: Any = types.ModuleType("kernels.telemetry")
    telemetry.visible_gpus = lambda: list(GPUS)
    telemetry.Telemetry = lambda gpu: types.SimpleNamespace(describe=lambda: describe(gpu))
    monkeypatch.setitem(sys.modules, "kernels.telemetry", telemetry)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("ends", "status"), [({}, 0), ({"GPU-2": 1}, 1), ({"GPU-1": 130}, 130), ({"GPU-1": 1, "GPU-2": 130}, 130)]
)
def test_the_worst_end_of_all_workers_is_the_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: dict[str, int], status: int
) -> None:
    timed: dict[str, list[TimedCase]] = {}

    def spawn(_: session.Workers, command: list[str], gpu: str, deadline_s: float) -> int:
        timed[gpu] = Plan.read(Path(command[3])).timed_cases()
        return ends.get(gpu, 0)

    monkeypatch.setattr(session.Workers, "run", spawn)
    assert session.run(three_cases(tmp_path, gpus=GPUS)) == status
    assert sorted((c for cases in timed.values() for c in cases), key=lambda c: c.n_ctx) == CASES


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("flags", "used", "fresh"),
    [
        ([], (), False),
        (["--gpus", "all"], ("GPU-1", "GPU-2"), False),
        (["--gpus", "GPU-2", "--fresh"], ("GPU-2",), True),
    ],
)
def test_options_change_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], used: tuple[str, ...], fresh: bool
) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(plan_document(tmp_path)))
    asked: list[Plan] = []
    monkeypatch.setattr(session, "run", lambda of: asked.append(of) or 0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["session", str(tmp_path / "plan.json"), *flags])
    assert session.main() == 0
    assert [(p.gpus, p.fresh) for p in asked] == [(used, fresh)]


# ---- one clear line ------------------------------------------------------------------------------------


def run_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.session", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60
    )


def has_gpu() -> bool:
    try:
        from kernels.telemetry import visible_gpus

        return bool(visible_gpus())
    except (ImportError, RuntimeError):
        return False


@pytest.mark.skipif(has_gpu(), reason="there is a GPU here")
@pytest.mark.parametrize("flags", [[], ["--gpus", "all"]])
def test_without_a_driver_there_is_one_clear_line(tmp_path: Path, flags: list[str]) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(plan_document(tmp_path)))
    done = run_command(str(tmp_path / "plan.json"), *flags)
    assert done.returncode == 1
    assert done.stderr.startswith("session: ")
    assert done.stderr.count("\n") == 1
    assert "no NVIDIA driver or no GPU" in done.stderr or "it needs numpy" in done.stderr


def test_without_its_libraries_there_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ModuleNotFoundError(\"No module named 'pynvml'\")")
    (tmp_path / "plan.json").write_text(json.dumps(plan_document(tmp_path)))
    done = run_command(str(tmp_path / "plan.json"), PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == (
        "session: No module named 'pynvml'; it needs numpy, zstandard, cuda-core and nvidia-ml-py: "
        "make .venv-gpu/ready\n"
    )


@pytest.mark.parametrize("content", [None, "{", json.dumps({"store": "x"})])
def test_a_bad_plan_is_one_clear_line(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_text(content)
    done = run_command(str(path))
    assert done.returncode == 1
    assert str(path) in done.stderr
    assert done.stderr.count("\n") == 1
