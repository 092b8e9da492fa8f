"""Blocks that end early: budgets, hangs, faults and interrupts leave a whole file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_gpu import Event, Machine, timing
from sessions import CASE, NEW, plan, written

from kernels import blocks, sampling
from kernels.plan import Plan
from kernels.sampling import CulpritError, wait
from kernels.session_file import exclusion_key

pytestmark = pytest.mark.usefixtures("store")


def test_the_budget_stops_between_blocks_and_says_so(both: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(blocks.time, "monotonic", lambda: machine.now_ms / 1000)
    timed = timing(both, machine, deadline_s=2.0)  # a block takes 0.8 s
    timed.run()
    assert timed.file.valid("kernel") == 3
    assert timed.file.note == "stopped by the budget; the same plan goes on from here"
    assert not timed.file.complete
    assert timed.file.status == "ok"


def test_a_budget_that_ends_after_enough_blocks_leaves_a_complete_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(noise=0.2)
    monkeypatch.setattr(blocks.time, "monotonic", lambda: machine.now_ms / 1000)
    of = plan(tmp_path, min_blocks=2, max_blocks=100, backward_blocks=0)
    timed = timing(of, machine, deadline_s=2.0)
    timed.run()
    assert 2 <= timed.file.valid("kernel") < 10
    assert timed.file.complete
    assert timed.file.note is not None


def test_a_budget_that_is_over_takes_no_block(both: Plan) -> None:
    timed = timing(both, Machine(), deadline_s=0.0)
    timed.run()
    assert timed.file.blocks == []
    assert not timed.file.complete


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "KERNEL_DEADLINE_S", 0.01)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("hanging", "variant"), [("none b1", "none"), ("atomic_add b1", "atomic_add")])
def test_a_kernel_that_hangs_is_named(tmp_path: Path, hanging: str, variant: str) -> None:
    machine = Machine()
    timed = timing(plan(tmp_path), machine)
    machine.on_launch = lambda name: setattr(machine, "hanging", hanging if len(machine.log) > 20 else None)
    with pytest.raises(CulpritError, match="did not end within 0 s") as caught:
        timed.run()
    assert caught.value.key == exclusion_key(CASE, NEW, variant)
    timed.file.write()
    assert {len(s["kernel_s"]) for s in written(timed.file)["subjects"]} == {timed.file.taken("kernel")}


@pytest.mark.usefixtures("impatient")
def test_a_kernel_that_hangs_while_it_warms_up_is_named(tmp_path: Path) -> None:
    with pytest.raises(CulpritError) as caught:
        timing(plan(tmp_path), Machine(hanging="inline_asm b1")).run()
    assert caught.value.key == exclusion_key(CASE, NEW, "inline_asm")


def test_a_fault_while_timing_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> None:
        raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")

    timed = timing(plan(tmp_path), Machine())
    monkeypatch.setattr(sampling, "wait", lost)
    with pytest.raises(CulpritError, match="faulted while it was timed: CUDA_ERROR_ILLEGAL_ADDRESS"):
        timed.run()


@pytest.mark.usefixtures("impatient")
def test_a_canary_that_hangs_is_named(tmp_path: Path) -> None:
    with pytest.raises(CulpritError) as caught:
        timing(plan(tmp_path), Machine(hanging="device_copy")).run()
    assert caught.value.key == "canary device_copy"


@pytest.mark.usefixtures("impatient")
def test_waiting_ends_with_the_event_or_names_the_culprit() -> None:
    wait(Event(is_done=True), lambda: "nobody")
    with pytest.raises(CulpritError) as caught:
        wait(Event(is_done=False), lambda: "somebody")
    assert caught.value.key == "somebody"


@pytest.mark.parametrize("launches", [1, 2, 9, 11, 20])
def test_an_interrupt_anywhere_leaves_a_whole_file(both: Plan, launches: int) -> None:
    def stop(_: str) -> None:
        count[0] += 1
        if count[0] == 6 + launches:
            raise KeyboardInterrupt

    count = [0]
    timed = timing(both, Machine(on_launch=stop))
    with pytest.raises(KeyboardInterrupt):
        timed.run()
    timed.file.write()
    document = written(timed.file)
    taken = (launches - 1) // 7
    assert len(document["blocks"]) == taken
    assert {len(s["kernel_s"]) for s in document["subjects"]} == {taken}
    assert len(document["canaries"]["device_copy"]["kernel_s"]) == taken
    assert not document["complete"]


def test_an_interrupt_while_times_are_read_leaves_a_whole_file(
    both: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = timing(both, Machine())
    reads = [0]

    def interrupted(self: Event, other: Event) -> float:
        reads[0] += 1
        if reads[0] == 7 * 2 + 4:
            raise KeyboardInterrupt
        return self.recorded_ms - other.recorded_ms

    monkeypatch.setattr(Event, "__sub__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        timed.run()
    timed.file.write()
    document = written(timed.file)
    assert len(document["blocks"]) == 2
    assert {len(s["kernel_s"]) for s in document["subjects"]} == {2}


def test_the_file_is_written_while_a_session_runs(both: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(blocks.time, "monotonic", lambda: machine.now_ms / 1000)
    monkeypatch.setattr(blocks, "_WRITE_EVERY_S", 2.0)
    timed = timing(both, machine)
    timed.run()
    assert 0 < len(written(timed.file)["blocks"]) < 8


def test_the_blocks_are_tested_without_a_gpus_libraries() -> None:
    absent = ("cuda", "cuda.core", "cuda.bindings", "pynvml", "torch", "triton")
    program = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); import kernels.blocks"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
