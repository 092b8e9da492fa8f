"""The blocks of a case, on a GPU that only keeps a list: what is launched, in which order, what counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_gpu import FAR_S, MILLISECONDS, Machine, name_of, orders, timing
from sessions import NEW, OLD, fill_store, plan, put_record, written

from kernels.blocks import Ready, Timing
from kernels.canary import Canary
from kernels.plan import Plan

pytestmark = pytest.mark.usefixtures("store")


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
