"""A second start of the same session: what goes on, what starts anew, what is done already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sessions import CASE, DEVICE, NEW, OLD, block, case_file, done, plan, put_record, written

from kernels import session_file
from kernels.plan import Plan
from kernels.reuse import reuse
from kernels.session_file import (
    CaseFile,
    exclusion_key,
    read_session_file,
    subjects_of,
)

pytestmark = pytest.mark.usefixtures("store")


def second_start(of: Plan, **changes: Any) -> CaseFile:
    file = case_file(of, **changes)
    file.resume()
    return file


def test_the_same_plan_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = case_file(plan(tmp_path), kernel=3, backward=2, phases_s={"time": 2.0}, process=4)
    first.write()
    file = second_start(plan(tmp_path), started_at="later")
    assert file.subjects[0].kernel_s == first.subjects[0].kernel_s != []
    assert file.subjects[2].backward_s == first.subjects[2].backward_s != []
    assert (file.taken("kernel"), file.taken("backward")) == (3, 2)
    assert file.canaries == first.canaries
    assert (file.process, file.started_at, file.phases_s) == (5, first.started_at, {"time": 2.0})


@pytest.mark.parametrize(
    "changes",
    [{"seed": 2}, {"max_blocks": 7}, {"commits": [[OLD, "old"], [NEW, "new"]]}, {"canaries": []}],
)
def test_another_plan_starts_anew(tmp_path: Path, changes: dict[str, Any]) -> None:
    case_file(plan(tmp_path), kernel=3).write()
    assert second_start(plan(tmp_path, **changes)).blocks == []


@pytest.mark.parametrize("changes", [{"uuid": "GPU-2"}, {"driver": "590.1"}, {"power_limit_w": 600.0}])
def test_another_device_starts_anew(tmp_path: Path, changes: dict[str, Any]) -> None:
    case_file(plan(tmp_path), kernel=3).write()
    assert second_start(plan(tmp_path), device={**DEVICE, **changes}).blocks == []


def test_another_method_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case_file(plan(tmp_path), kernel=3).write()
    monkeypatch.setattr(session_file, "timing_fingerprint", lambda: "other")
    assert second_start(plan(tmp_path)).blocks == []


def test_a_kernel_that_was_compiled_anew_starts_anew(tmp_path: Path) -> None:
    case_file(plan(tmp_path), kernel=3).write()
    put_record(tmp_path, NEW, "none", "other code")
    assert second_start(plan(tmp_path)).blocks == []


def test_a_finished_file_starts_anew(tmp_path: Path) -> None:
    case_file(plan(tmp_path), kernel=3, complete=True).write()
    assert second_start(plan(tmp_path)).blocks == []


def test_a_damaged_file_starts_anew(tmp_path: Path) -> None:
    file = case_file(plan(tmp_path), kernel=3)
    file.write()
    document = written(file)
    file.path.write_text(json.dumps({**document, "subjects": document["subjects"][:2]}))
    assert second_start(plan(tmp_path)).blocks == []


def test_a_kernel_that_took_its_process_down_leaves_the_others_their_blocks(tmp_path: Path) -> None:
    case_file(plan(tmp_path), kernel=3).write()
    file = case_file(plan(tmp_path))
    key = exclusion_key(CASE, NEW, "none")
    file.subjects = subjects_of(file.plan, CASE, {key: "did not end within 20 s"})
    file.resume()
    assert [len(s.kernel_s) for s in file.subjects] == [3, 3, 0]
    file.blocks.append(block())
    for samples in (*(s.kernel_s for s in file.subjects[:2]), file.canaries["device_copy"]["kernel_s"]):
        samples.append(1.0)
    file.write()
    assert read_session_file(file.path) is not None


def test_a_kernel_that_is_timed_only_now_starts_anew(tmp_path: Path) -> None:
    file = case_file(plan(tmp_path), kernel=3)
    file.subjects[2].status, file.subjects[2].kernel_s = "failed", []
    file.write()
    assert second_start(plan(tmp_path)).blocks == []


# ---- canaries of a second start ------------------------------------------------------------------------


def test_canaries_are_all_timed_at_first(tmp_path: Path) -> None:
    file = case_file(plan(tmp_path, canaries=[]))
    assert file.settle_canaries({"device_copy": None, "sdpa_flash": "no torch"}) == {"device_copy"}
    assert file.canaries == {
        "device_copy": {"message": None, "kernel_s": []},
        "sdpa_flash": {"message": "no torch", "kernel_s": []},
    }


def test_a_canary_goes_on_with_its_blocks(tmp_path: Path) -> None:
    file = case_file(plan(tmp_path), kernel=3)
    assert file.settle_canaries({"device_copy": None}) == {"device_copy"}
    assert file.canaries["device_copy"] == {"message": None, "kernel_s": [0.5] * 3}


def test_a_canary_that_hung_is_left_out_with_its_samples(tmp_path: Path) -> None:
    """Three samples in twenty blocks could not be told which blocks they are of."""
    file = case_file(plan(tmp_path, canaries=["device_copy", "sdpa_flash"]), kernel=3)
    assert file.settle_canaries({"device_copy": None, "sdpa_flash": "hung"}) == {"device_copy"}
    assert file.canaries["sdpa_flash"] == {"message": "hung", "kernel_s": []}


def test_a_canary_that_is_there_only_now_stays_out(tmp_path: Path) -> None:
    file = case_file(plan(tmp_path), kernel=3)
    file.canaries = {"sdpa_flash": {"message": "no torch", "kernel_s": []}}
    assert file.settle_canaries({"device_copy": None, "sdpa_flash": None}) == set()
    assert file.canaries["sdpa_flash"]["message"] == "no torch"
    assert file.canaries["device_copy"] == {"message": "not timed in the first blocks", "kernel_s": []}


# ---- when nothing is left to do ------------------------------------------------------------------------


def test_a_finished_case_is_done_for_its_plan_and_device(tmp_path: Path) -> None:
    assert not done(plan(tmp_path))
    case_file(plan(tmp_path), kernel=4).write()
    assert not done(plan(tmp_path))
    case_file(plan(tmp_path), kernel=4, complete=True).write()
    assert done(plan(tmp_path))
    assert not done(plan(tmp_path, seed=2))
    assert not done(plan(tmp_path), uuid="GPU-2")


def test_a_case_without_valid_data_is_done_too(tmp_path: Path) -> None:
    case_file(plan(tmp_path), kernel=12, complete=True, status="no_valid_data").write()
    assert done(plan(tmp_path))


def test_a_case_is_not_done_when_its_kernels_were_compiled_anew(tmp_path: Path) -> None:
    case_file(plan(tmp_path), kernel=4, complete=True).write()
    put_record(tmp_path, NEW, "none", "other code")
    assert not done(plan(tmp_path))


def test_a_case_is_not_done_when_a_missing_kernel_was_compiled_since(tmp_path: Path) -> None:
    path = put_record(tmp_path, NEW, "none")
    path.unlink()
    case_file(plan(tmp_path), kernel=4, complete=True).write()
    assert done(plan(tmp_path))
    put_record(tmp_path, NEW, "none")
    assert not done(plan(tmp_path))


def test_a_case_with_a_kernel_that_took_its_process_down_is_done(tmp_path: Path) -> None:
    file = case_file(plan(tmp_path), kernel=4, complete=True)
    excluded = subjects_of(file.plan, CASE, {exclusion_key(CASE, NEW, "none"): "hung"})
    file.subjects[2] = excluded[2]
    file.write()
    assert done(plan(tmp_path))


def test_a_damaged_record_is_left_to_the_worker_to_name(tmp_path: Path) -> None:
    of = plan(tmp_path, archive=str(tmp_path / "sessions"))
    case_file(of, kernel=4, complete=True).write()
    put_record(tmp_path, NEW, "none").write_text("{")
    assert not done(of)
    assert not reuse(of, CASE, DEVICE)
