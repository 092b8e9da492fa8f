"""The blocks of a case, on a GPU that only keeps a list: what is launched, in which order, what counts, and
when it ends."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sessions import CASE, NEW, OLD, case_file, fill_store, plan, put_record, written

from kernels import blocks, sampling
from kernels.blocks import Ready, Timing
from kernels.canary import Canary
from kernels.plan import Plan
from kernels.sampling import CulpritError, Run, wait
from kernels.session_file import exclusion_key

FAR_S = 1e12  # a deadline that never comes
MILLISECONDS = {"atomic_add": 2.0, "inline_asm": 1.0, "none": 0.5, "device_copy": 0.25, "sdpa_flash": 0.125}


@dataclass
class Event:
    recorded_ms: float = 0.0
    is_done: bool = True

    def __sub__(self, other: Event) -> float:
        return self.recorded_ms - other.recorded_ms


@dataclass(frozen=True)
class Reading:
    power_w: float
    invalid_reasons: tuple[str, ...]


@dataclass
class Machine:
    """GPU, workload, telemetry and L2 flush in one. ``log``: what the stream was given, in order.

    ``noise``: standard deviation of a time, as a share. ``hanging``: a kernel that never ends; nothing after
    it does. ``throttles``: for each reading of the telemetry whether the GPU is too hot.
    """

    noise: float = 0.0
    hanging: str | None = None
    throttles: Callable[[int], bool] = lambda _: False
    on_launch: Callable[[str], None] = lambda _: None
    log: list[str] = field(default_factory=list)
    now_ms: float = 0.0
    has_hung: bool = False
    readings: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(4717))

    def __post_init__(self) -> None:
        self.stream = self

    def timing_event(self) -> Event:
        return Event()

    def record(self, event: Event) -> None:
        event.recorded_ms, event.is_done = self.now_ms, not self.has_hung
        self.log.append("event")

    def kernel(self, name: str, ms: float) -> Callable[..., None]:
        def launch(*_: Any) -> None:
            self.log.append(name)
            self.on_launch(name)
            self.has_hung |= name == self.hanging
            self.now_ms += ms * max(0.1, self.rng.gauss(1, self.noise))

        return launch

    def zero_dq(self) -> None:
        self.log.append("zero")
        self.now_ms += 100.0

    def fill(self, _: int, stream: Any) -> None:
        assert stream is self
        self.log.append("flush")
        self.now_ms += 10.0

    def read(self) -> Reading:
        self.readings += 1
        return Reading(300.0, ("hw_thermal",) if self.throttles(self.readings) else ())


def timing(of: Plan, machine: Machine, deadline_s: float = FAR_S, **file_changes: Any) -> Timing:
    """All subjects of the plan, as a session has them after their gradients were checked."""
    file = case_file(of, **file_changes)
    file.resume()
    gpu: Any = machine
    preprocess, convert = machine.kernel("preprocess", 0.05), machine.kernel("convert", 0.05)
    runs = [
        Run(s, [machine.kernel(name_of(s), MILLISECONDS[s.variant])], preprocess, convert, gpu, gpu)
        for s in file.subjects
        if s.status == "ok" and s.shared_with is None
    ]
    canaries = [Canary(name, machine.kernel(name, MILLISECONDS[name])) for name in of.canaries]
    return Timing(of, gpu, gpu, gpu, deadline_s, Ready(file, gpu, runs), canaries)


def name_of(subject: Any) -> str:
    return f"{subject.variant} {subject.commit[:1]}{subject.copy}"


def orders(log: list[str], width: int) -> list[list[str]]:
    """The kernels of each kernel block, in order, after the warm-up."""
    kernels = [word for word in log if word[-2:] in ("a1", "b1", "b2") or word in MILLISECONDS]
    kernels = kernels[width - 1 :]  # the warm-up is without the canary
    return [kernels[start : start + width] for start in range(0, len(kernels), width)]


@pytest.fixture(autouse=True)
def _store(tmp_path: Path) -> None:
    fill_store(tmp_path)


@pytest.fixture
def both(tmp_path: Path) -> Plan:
    """Two commits, eight kernel blocks and no others."""
    return plan(
        tmp_path,
        commits=[[OLD, "old"], [NEW, "new"]],
        min_blocks=8,
        max_blocks=8,
        backward_blocks=0,
    )


# ---- order ---------------------------------------------------------------------------------------------


def test_every_kernel_and_canary_is_once_in_every_block(both: Plan) -> None:
    machine = Machine()
    timed = timing(both, machine)
    timed.run()
    found = orders(machine.log, 7)
    assert len(found) == 8
    everything = sorted([*(name_of(s) for s in timed.file.subjects), "device_copy"])
    assert all(sorted(order) == everything for order in found)
    assert [len(s.kernel_s) for s in timed.file.subjects] == [8] * 6
    assert len(timed.file.canaries["device_copy"]["kernel_s"]) == 8
    assert timed.file.complete


def test_the_order_is_drawn_anew_for_each_block_from_the_seed(both: Plan, tmp_path: Path) -> None:
    logs = []
    for seed in (1, 1, 2):
        machine = Machine()
        of = Plan(**{**vars(both), "seed": seed, "out": str(tmp_path / str(len(logs)))})
        timing(of, machine).run()
        logs.append(orders(machine.log, 7))
    assert logs[0] == logs[1] != logs[2]
    assert len({tuple(order) for order in logs[0]}) > 4
    first = [order[0] for seed_orders in logs for order in seed_orders]
    assert len(set(first)) > 3  # no kernel has the first place to itself


def test_a_resumed_session_draws_the_orders_that_it_would_have_drawn(both: Plan) -> None:
    whole = Machine()
    timing(both, whole).run()

    def stop(name: str) -> None:
        if name == "device_copy" and first.log.count(name) == 4:
            raise KeyboardInterrupt

    first = Machine(on_launch=stop)
    interrupted = timing(both, first)
    with pytest.raises(KeyboardInterrupt):
        interrupted.run()
    interrupted.file.write()
    second = Machine()
    resumed = timing(both, second)
    assert resumed.file.taken("kernel") == 3
    resumed.run()
    assert orders(second.log, 7) == orders(whole.log, 7)[3:]
    assert [b["process"] for b in resumed.file.blocks] == [1] * 3 + [2] * 5
    assert {len(s.kernel_s) for s in resumed.file.subjects} == {8}


def test_equal_kernels_are_launched_once(tmp_path: Path, both: Plan) -> None:
    put_record(tmp_path, NEW, "none", "none of a")
    machine = Machine()
    timed = timing(both, machine)
    timed.run()
    assert "none b1" not in machine.log
    assert timed.file.subjects[5].kernel_s == []
    assert timed.file.subjects[5].shared_with == [OLD, "none"]


def test_a_commit_listed_twice_is_launched_twice(tmp_path: Path) -> None:
    machine = Machine()
    of = plan(tmp_path, commits=[[NEW, "new"], [NEW, "again"]], backward_blocks=0)
    timed = timing(of, machine)
    timed.run()
    assert machine.log.count("none b1") == machine.log.count("none b2") == 1 + timed.file.taken("kernel")


# ---- what is timed -------------------------------------------------------------------------------------


def test_dq_is_zeroed_and_then_the_l2_flushed_outside_the_timed_region(both: Plan) -> None:
    """Zeroing after the flush would leave dQ in the L2."""
    machine = Machine()
    timing(both, machine).run()
    after_warm_up = machine.log[12:]  # six kernels, and an event after each
    turns = [after_warm_up[start : start + 5] for start in range(0, len(after_warm_up), 5)]
    assert len(turns) == 7 * 8
    for zero, flush, start, _kernel, end in turns:
        assert (zero, flush, start, end) == ("zero", "flush", "event", "event")


def test_a_sample_is_the_kernels_own_time(both: Plan) -> None:
    timed = timing(both, Machine())
    timed.run()
    for subject in timed.file.subjects:
        assert subject.kernel_s == [MILLISECONDS[subject.variant] / 1000] * 8
    assert timed.file.canaries["device_copy"]["kernel_s"] == [0.00025] * 8


def test_the_second_series_times_the_whole_backward_without_canaries(tmp_path: Path) -> None:
    machine = Machine()
    timed = timing(plan(tmp_path, backward_blocks=4), machine)
    timed.run()
    file = timed.file
    assert (file.taken("kernel"), file.taken("backward")) == (4, 4)
    assert file.canaries["device_copy"]["kernel_s"] == [0.00025] * 4
    for subject in file.subjects:
        # preprocess, dQ's zeroing, the kernel, dQ's conversion
        assert subject.backward_s == [round(0.1001 + MILLISECONDS[subject.variant] / 1000, 9)] * 4
    at = machine.log.index("preprocess")
    assert machine.log[at - 3 : at + 2] == ["zero", "flush", "event", "preprocess", "zero"]
    assert machine.log[at + 3 : at + 5] == ["convert", "event"]


def test_blocks_of_the_second_series_lie_between_those_of_the_first(tmp_path: Path) -> None:
    timed = timing(plan(tmp_path), Machine())
    timed.run()
    series = [b["series"] for b in timed.file.blocks]
    assert series == ["kernel", "backward", "kernel", "backward", "kernel", "kernel"]


def test_a_canary_that_cannot_be_timed_is_recorded_and_left_out(both: Plan) -> None:
    machine = Machine()
    timed = timing(both, machine)
    missing = Canary("sdpa_flash", None, "no torch")
    again = Timing(both, *[machine] * 3, FAR_S, Ready(timed.file, machine, timed._sampler._runs), [missing])  # type: ignore[arg-type]
    again.run()
    assert again.file.canaries["sdpa_flash"] == {"message": "no torch", "kernel_s": []}
    assert "sdpa_flash" not in machine.log


# ---- throttling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", [3, 4])  # before the second block, after it
def test_a_throttled_block_is_marked_left_out_and_taken_again(both: Plan, reading: int) -> None:
    timed = timing(both, Machine(noise=0.1, throttles=lambda n: n == reading))
    timed.run()
    file, subject = timed.file, timed.file.subjects[0]
    assert [b["valid"] for b in file.blocks] == [True, False] + [True] * 7
    assert file.blocks[1]["before" if reading == 3 else "after"]["invalid_reasons"] == ("hw_thermal",)
    assert len(subject.kernel_s) == 9
    assert file.samples(subject, "kernel") == [subject.kernel_s[0], *subject.kernel_s[2:]]
    assert (file.status, file.complete, file.note) == ("ok", True, None)


def test_a_gpu_that_always_throttles_gives_no_valid_data_and_an_end(both: Plan) -> None:
    timed = timing(both, Machine(throttles=lambda _: True))
    timed.run()
    file = timed.file
    assert (file.status, file.complete) == ("no_valid_data", True)
    assert file.note == "the GPU throttled (heat or hardware) in 16 of 16 kernel blocks"
    assert file.samples(file.subjects[0], "kernel") == []
    file.write()
    assert written(file)["status"] == "no_valid_data"


def test_a_gpu_that_throttles_in_the_second_series_only_gives_no_valid_data(tmp_path: Path) -> None:
    machine = Machine()
    timed = timing(plan(tmp_path), machine)
    machine.throttles = lambda n: n % 2 == 0 and "preprocess" in machine.log[-20:]  # after a block
    timed.run()
    assert timed.file.valid("kernel") >= 4
    assert timed.file.status == "no_valid_data"
    assert timed.file.note is not None
    assert timed.file.note.endswith("backward blocks")


# ---- how many blocks -----------------------------------------------------------------------------------


def test_narrow_ratios_stop_at_the_least_number_of_blocks(tmp_path: Path) -> None:
    of = plan(tmp_path, min_blocks=5, max_blocks=50)
    timed = timing(of, Machine(noise=0.001))
    timed.run()
    assert (timed.file.valid("kernel"), timed.file.complete) == (5, True)


def test_wide_ratios_go_on_to_the_most_blocks(tmp_path: Path) -> None:
    of = plan(tmp_path, min_blocks=5, max_blocks=30)
    timed = timing(of, Machine(noise=0.1))
    timed.run()
    assert (timed.file.valid("kernel"), timed.file.complete) == (30, True)


def test_ratios_go_on_until_they_are_narrow(tmp_path: Path) -> None:
    of = plan(tmp_path, min_blocks=5, max_blocks=400, target_half_width=0.005)
    timed = timing(of, Machine(noise=0.02))
    timed.run()
    # 1.96 * 2 % * root of two over the root of n is half a percent at n = 123
    assert 80 < timed.file.valid("kernel") < 200


def test_one_block_is_not_narrow(tmp_path: Path) -> None:
    timed = timing(plan(tmp_path, min_blocks=1, max_blocks=50), Machine())
    timed.run()
    assert timed.file.valid("kernel") == 3


def test_without_the_reference_there_is_no_ratio_to_wait_for(tmp_path: Path) -> None:
    of = plan(tmp_path, variants=["atomic_add", "none"], min_blocks=5, max_blocks=50)
    timed = timing(of, Machine(noise=0.5))
    timed.run()
    assert timed.file.valid("kernel") == 5


def test_a_commit_that_shares_its_reference_is_waited_for_as_well(tmp_path: Path) -> None:
    """Its inline_asm is the other commit's kernel, and its own ratios are as uncertain."""
    fill_store(tmp_path, OLD, NEW)
    put_record(tmp_path, NEW, "inline_asm", f"inline_asm of {OLD[:1]}")
    put_record(tmp_path, OLD, "atomic_add", status="failed", message="no")
    put_record(tmp_path, OLD, "none", status="failed", message="no")
    of = plan(tmp_path, commits=[[OLD, "old"], [NEW, "new"]], min_blocks=5, max_blocks=40)
    timed = timing(of, Machine(noise=0.1))
    timed.run()
    assert timed.file.valid("kernel") == 40


# ---- budget, hangs, interrupts -------------------------------------------------------------------------


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
