"""One case of a worker, after its kernels were checked: what is timed, written and reported. The libraries
of a GPU are empty modules here."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from sessions import CASE, case_file, fill_store, plan, written
from test_blocks import FAR_S, Machine, timing

from kernels.blocks import Ready
from kernels.canary import Canary
from kernels.plan import Plan

OURS = ("launch", "workload", "telemetry", "interleave")


@pytest.fixture
def interleave(monkeypatch: pytest.MonkeyPatch) -> Any:
    """kernels.interleave, on a machine without a GPU's libraries."""
    core: Any = types.ModuleType("cuda.core")
    for name in (
        "Buffer",
        "Device",
        "EventOptions",
        "Kernel",
        "LaunchConfig",
        "ObjectCode",
        "Stream",
        "launch",
    ):
        setattr(core, name, object)
    bindings: Any = types.ModuleType("cuda.bindings")
    bindings.driver = types.ModuleType("cuda.bindings.driver")
    found = {"cuda": types.ModuleType("cuda"), "cuda.core": core, "cuda.bindings": bindings}
    for name, module in {**found, "pynvml": types.ModuleType("pynvml")}.items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in OURS:
        monkeypatch.setitem(sys.modules, f"kernels.{name}", None)  # put back afterwards, as all of these
        del sys.modules[f"kernels.{name}"]
    return importlib.import_module("kernels.interleave")


def worker(
    interleave: Any, of: Plan, machine: Machine, canaries: list[Canary], deadline_s: float = FAR_S
) -> Any:
    session = object.__new__(interleave.Session)
    session.plan, session.excluded = of, {}
    session.gpu = session.telemetry = session.flush = machine
    session.canaries = types.SimpleNamespace(of_case=lambda case, excluded: canaries)
    session._deadline_s = deadline_s
    return session


def ready(of: Plan, machine: Machine, **changes: Any) -> Ready:
    timed = timing(of, machine, **changes)
    timed.file.canaries.clear()
    workload: Any = machine
    workload.close = lambda: machine.log.append("closed")
    return Ready(timed.file, workload, timed._sampler._runs)


@pytest.fixture
def of(tmp_path: Path) -> Plan:
    fill_store(tmp_path)
    return plan(
        tmp_path, min_blocks=4, max_blocks=4, backward_blocks=0, canaries=["device_copy", "sdpa_flash"]
    )


def both(machine: Machine) -> list[Canary]:
    return [Canary(name, machine.kernel(name, 1.0)) for name in ("device_copy", "sdpa_flash")]


def test_a_case_is_timed_and_its_memory_freed(interleave: Any, of: Plan) -> None:
    machine = Machine()
    case = ready(of, machine)
    assert worker(interleave, of, machine, both(machine))._time_all([case]) == []
    document = written(case.file)
    assert document["complete"]
    assert {len(s["kernel_s"]) for s in document["subjects"]} == {4}
    assert {len(canary["kernel_s"]) for canary in document["canaries"].values()} == {4}
    assert machine.log[-1] == "closed"


def test_a_case_without_a_right_kernel_is_done_and_says_so(interleave: Any, of: Plan) -> None:
    """An older Triton may have none of the variants that were asked for."""
    machine = Machine()
    case = ready(of, machine)
    case.runs.clear()
    assert worker(interleave, of, machine, both(machine))._time_all([case]) == []
    document = written(case.file)
    assert (document["complete"], document["blocks"]) == (True, [])
    assert "nothing to time" in document["note"]


def test_a_canary_that_hung_does_not_come_back_half(interleave: Any, of: Plan) -> None:
    first = case_file(of, kernel=2)
    first.write()
    machine = Machine()
    case = ready(of, machine)
    canaries = [both(machine)[0], Canary("sdpa_flash", None, "did not end within 20 s")]
    assert worker(interleave, of, machine, canaries)._time_all([case]) == []
    found = written(case.file)["canaries"]
    assert len(found["device_copy"]["kernel_s"]) == 4
    assert found["sdpa_flash"] == {"message": "did not end within 20 s", "kernel_s": []}


def test_a_budget_that_leaves_too_few_blocks_is_a_problem(interleave: Any, of: Plan) -> None:
    machine = Machine()
    case = ready(of, machine)
    problems = worker(interleave, of, machine, both(machine), deadline_s=0.0)._time_all([case])
    assert problems == [f"{CASE.slug}: stopped by the budget; the same plan goes on from here"]
    assert not case.file.path.exists()


def test_a_budget_that_leaves_enough_blocks_is_none(
    interleave: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_store(tmp_path)
    of = plan(tmp_path, min_blocks=2, max_blocks=90, backward_blocks=0)
    machine = Machine(noise=0.3)
    monkeypatch.setattr("kernels.blocks.time.monotonic", lambda: machine.now_ms / 1000)
    case = ready(of, machine)
    assert worker(interleave, of, machine, both(machine)[:1], deadline_s=3.0)._time_all([case]) == []
    assert "stopped by the budget" in written(case.file)["note"]


def test_a_gpu_that_throttles_is_a_problem(interleave: Any, of: Plan) -> None:
    machine = Machine(throttles=lambda _: True)
    case = ready(of, machine)
    [problem] = worker(interleave, of, machine, both(machine))._time_all([case])
    assert "throttled (heat or hardware) in 8 of 8 kernel blocks" in problem
    assert written(case.file)["status"] == "no_valid_data"


def test_an_interrupted_case_keeps_its_blocks(interleave: Any, of: Plan) -> None:
    def stop(_: str) -> None:
        if machine.log.count("sdpa_flash") == 3:
            raise KeyboardInterrupt

    machine = Machine(on_launch=stop)
    case = ready(of, machine)
    with pytest.raises(KeyboardInterrupt):
        worker(interleave, of, machine, both(machine))._time_all([case])
    document = written(case.file)
    assert (len(document["blocks"]), document["complete"]) == (2, False)
    assert machine.log[-1] == "closed"
