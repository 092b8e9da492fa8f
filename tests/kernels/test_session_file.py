"""The file of one case: always whole, gone on with by its own plan only, and used again where it fits."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from sessions import CASE, DEVICE, NEW, OLD, block, case_file, fill_store, plan, put_record, written

from kernels import session_file
from kernels.plan import Plan
from kernels.reuse import reuse
from kernels.session_file import (
    CaseFile,
    Stopwatch,
    exclusion_key,
    is_complete,
    read_session_file,
    subjects_of,
)

NAME = f"{CASE.slug}.json"


@pytest.fixture(autouse=True)
def _store(tmp_path: Path) -> None:
    fill_store(tmp_path)


# ---- samples and blocks --------------------------------------------------------------------------------


def test_samples_of_throttled_blocks_do_not_count(tmp_path: Path) -> None:
    file = case_file(plan(tmp_path), kernel=3, backward=2)
    file.blocks = [block(), block("backward", False), block(valid=False), block("backward"), block()]
    subject = file.subjects[0]
    assert file.samples(subject, "kernel") == [subject.kernel_s[0], subject.kernel_s[2]]
    assert file.samples(subject, "backward") == [subject.backward_s[1]]
    assert (file.valid("kernel"), file.taken("kernel")) == (2, 3)
    assert (file.valid("backward"), file.taken("backward")) == (1, 2)


def test_a_file_says_what_it_was_made_of(tmp_path: Path) -> None:
    of = plan(tmp_path)
    file = case_file(of, kernel=3, backward=2, note="a note", phases_s={"time": 1.23456789})
    file.subjects[0].errors = {"dq": math.inf}
    file.write()
    document = read_session_file(file.path)
    assert document is not None
    assert (document["complete"], document["note"], document["phases_s"]) == (
        False,
        "a note",
        {"time": 1.2346},
    )
    assert document["plan"] == of.key()
    assert document["device"] == DEVICE
    assert document["subjects"][0]["errors"] == {"dq": math.inf}
    assert [s["variant"] for s in document["subjects"]] == of.variants
    assert len(document["blocks"]) == 5


def test_half_a_block_is_dropped(tmp_path: Path) -> None:
    """As an interrupt leaves it: samples of some kernels, and no block."""
    file = case_file(plan(tmp_path), kernel=3, backward=1)
    file.subjects[1].kernel_s.append(9.0)
    file.subjects[2].backward_s.append(9.0)
    file.canaries["device_copy"]["kernel_s"].append(9.0)
    file.write()
    document = read_session_file(file.path)
    assert document is not None
    assert {len(s["kernel_s"]) for s in document["subjects"]} == {3}
    assert {len(s["backward_s"]) for s in document["subjects"]} == {1}
    assert document["canaries"]["device_copy"]["kernel_s"] == [0.5] * 3


def test_an_interrupt_while_writing_keeps_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = case_file(plan(tmp_path), kernel=3)
    file.write()
    before = file.path.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    file.note = "later"
    with pytest.raises(KeyboardInterrupt):
        file.write()
    assert file.path.read_bytes() == before
    assert list(file.path.parent.iterdir()) == [file.path]


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: None,
        lambda d: [],
        lambda d: 3,
        lambda d: {**d, "schema": 1},
        lambda d: {name: value for name, value in d.items() if name != "device"},
        lambda d: {**d, "subjects": [{"variant": "store"}]},
        lambda d: {**d, "subjects": [{**d["subjects"][0], "kernel_s": [1.0]}]},
        lambda d: {**d, "subjects": 3},
        lambda d: {**d, "blocks": [{"series": "kernel"}]},
        lambda d: {**d, "blocks": d["blocks"][1:]},
        lambda d: {**d, "canaries": {"device_copy": {"message": None, "kernel_s": [1.0]}}},
        lambda d: {**d, "canaries": []},
    ],
)
def test_something_else_is_no_session_file(tmp_path: Path, damage: Any) -> None:
    file = case_file(plan(tmp_path), kernel=3)
    file.write()
    assert read_session_file(file.path) is not None
    file.path.write_text(json.dumps(damage(written(file))))
    assert read_session_file(file.path) is None


def test_a_cut_or_missing_file_is_no_session_file(tmp_path: Path) -> None:
    file = case_file(plan(tmp_path), kernel=3)
    assert read_session_file(file.path) is None
    file.write()
    file.path.write_bytes(file.path.read_bytes()[:-2])
    assert read_session_file(file.path) is None


def test_a_stopwatch_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([10.0, 11.0, 14.0, 14.5])
    monkeypatch.setattr(session_file.time, "monotonic", lambda: next(now))
    phases_s = {"time": 5.0}
    watch = Stopwatch(phases_s)
    watch.lap("prepare")
    watch.lap("time")
    watch.lap("prepare")
    assert phases_s == {"time": 8.0, "prepare": 1.5}


# ---- a second start ------------------------------------------------------------------------------------


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


def done(of: Plan, **device: Any) -> bool:
    return is_complete(Path(of.out) / NAME, of, CASE, {**DEVICE, **device})


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


# ---- earlier samples used again ------------------------------------------------------------------------


def archive(
    tmp_path: Path, name: str = "first", kernel: int = 4, backward: int = 2, **changes: Any
) -> CaseFile:
    """A finished session of both commits."""
    of = plan(
        tmp_path,
        out=str(tmp_path / "sessions" / name),
        commits=changes.pop("commits", [[OLD, "old"], [NEW, "new"]]),
        **{key: changes.pop(key) for key in ("canaries", "seed") if key in changes},
    )
    file = case_file(of, kernel, backward, **{"complete": True, **changes})
    file.write()
    return file


def later(tmp_path: Path, **changes: Any) -> Plan:
    return plan(tmp_path, **{"archive": str(tmp_path / "sessions"), "seed": 7, **changes})


def test_samples_of_the_same_kernels_are_used_again(tmp_path: Path) -> None:
    """A commit all of whose kernels were timed costs no GPU second."""
    first = archive(tmp_path)
    of = later(tmp_path)
    assert reuse(of, CASE, DEVICE)
    document = json.loads((Path(of.out) / NAME).read_text())
    assert document["reused_from"] == "first"
    assert document["complete"]
    assert document["plan"] == of.key()
    assert document["started_at"] == first.started_at
    new = first.subjects[3:]
    assert [s["kernel_s"] for s in document["subjects"]] == [s.kernel_s for s in new]
    assert [s["backward_s"] for s in document["subjects"]] == [s.backward_s for s in new]
    assert [s["errors"] for s in document["subjects"]] == [s.errors for s in new]
    assert document["canaries"] == first.canaries
    assert len(document["blocks"]) == 6
    assert done(of)


def test_a_commit_that_was_never_timed_may_have_timed_kernels(tmp_path: Path) -> None:
    archive(tmp_path, commits=[[OLD, "old"]])
    for variant in ("atomic_add", "inline_asm", "none"):
        put_record(tmp_path, NEW, variant, f"{variant} of a")
    assert reuse(later(tmp_path), CASE, DEVICE)


def test_equal_kernels_share_the_samples_that_are_used_again(tmp_path: Path) -> None:
    first = archive(tmp_path, commits=[[OLD, "old"]])
    for variant in ("atomic_add", "inline_asm", "none"):
        put_record(tmp_path, NEW, variant, "inline_asm of a")
    of = later(tmp_path, commits=[[OLD, "old"], [NEW, "new"]])
    assert reuse(of, CASE, DEVICE)
    found = json.loads((Path(of.out) / NAME).read_text())["subjects"]
    assert [s["shared_with"] for s in found] == [None] * 3 + [[OLD, "inline_asm"]] * 3
    assert [len(s["kernel_s"]) for s in found] == [4] * 3 + [0] * 3
    assert found[1]["kernel_s"] == first.subjects[1].kernel_s


def test_samples_that_were_shared_then_are_found(tmp_path: Path) -> None:
    put_record(tmp_path, NEW, "none", "none of a")
    first = archive(tmp_path)
    assert first.subjects[5].shared_with == [OLD, "none"]
    of = later(tmp_path)
    assert reuse(of, CASE, DEVICE)
    assert (
        json.loads((Path(of.out) / NAME).read_text())["subjects"][2]["kernel_s"] == first.subjects[2].kernel_s
    )


def test_throttled_blocks_come_along_and_do_not_count(tmp_path: Path) -> None:
    blocks = [block(valid=False)] * 2 + [block()] * 4 + [block("backward")] * 2
    archive(tmp_path, kernel=6, blocks=blocks)
    of = later(tmp_path)
    assert reuse(of, CASE, DEVICE)
    assert len(json.loads((Path(of.out) / NAME).read_text())["blocks"]) == 8
    assert not reuse(later(tmp_path, min_blocks=5), CASE, DEVICE)


def test_a_kernel_with_wrong_gradients_stays_wrong(tmp_path: Path) -> None:
    file = archive(tmp_path)
    wrong = file.subjects[5]
    wrong.status, wrong.message, wrong.kernel_s, wrong.backward_s = "wrong", "wrong gradients", [], []
    file.write()
    of = later(tmp_path)
    assert reuse(of, CASE, DEVICE)
    found = json.loads((Path(of.out) / NAME).read_text())["subjects"][2]
    assert (found["status"], found["message"], found["kernel_s"]) == ("wrong", "wrong gradients", [])


def test_a_kernel_that_failed_then_is_tried_again(tmp_path: Path) -> None:
    """Its cubin may have been damaged, or another kernel's fault taken for its own."""
    file = archive(tmp_path)
    failed = file.subjects[5]
    failed.status, failed.message, failed.kernel_s, failed.backward_s = "failed", "damaged", [], []
    file.write()
    assert not reuse(later(tmp_path), CASE, DEVICE)


def test_what_was_not_compiled_needs_no_samples(tmp_path: Path) -> None:
    archive(tmp_path)
    put_record(tmp_path, NEW, "none", status="unsupported", message="no such operation")
    of = later(tmp_path)
    assert reuse(of, CASE, DEVICE)
    found = json.loads((Path(of.out) / NAME).read_text())["subjects"][2]
    assert (found["status"], found["kernel_s"]) == ("unsupported", [])


def test_an_unknown_kernel_is_timed(tmp_path: Path) -> None:
    archive(tmp_path)
    put_record(tmp_path, NEW, "none", "none of a", "and a second kernel")
    assert not reuse(later(tmp_path), CASE, DEVICE)


def test_kernels_of_two_sessions_are_not_joined(tmp_path: Path) -> None:
    """Their ratio would not be paired."""
    archive(tmp_path, "first", commits=[[OLD, "old"]])
    archive(tmp_path, "second", commits=[[NEW, "new"]])
    assert not reuse(later(tmp_path, commits=[[OLD, "old"], [NEW, "new"]]), CASE, DEVICE)


def test_the_newest_session_serves(tmp_path: Path) -> None:
    for age, name in enumerate(["newest", "older", "oldest"]):
        os.utime(archive(tmp_path, name).path, (1e9 - age, 1e9 - age))
    of = later(tmp_path)
    assert reuse(of, CASE, DEVICE)
    assert json.loads((Path(of.out) / NAME).read_text())["reused_from"] == "newest"


def test_what_was_used_again_is_no_source(tmp_path: Path) -> None:
    archive(tmp_path)
    assert reuse(later(tmp_path), CASE, DEVICE)
    of = later(tmp_path, out=str(tmp_path / "sessions" / "third"))
    assert reuse(of, CASE, DEVICE)
    assert json.loads((Path(of.out) / NAME).read_text())["reused_from"] == "first"


@pytest.mark.parametrize(
    "changes",
    [
        {"fresh": True},
        {"archive": None},
        {"archive": "nowhere"},
        {"min_blocks": 5},
        {"backward_blocks": 3},
        {"commits": [[NEW, "new"], [NEW, "again"]]},
        {"canaries": ["device_copy", "sdpa_flash"]},
        {"target": "cuda:80"},
    ],
)
def test_a_plan_that_asks_for_more_is_timed(tmp_path: Path, changes: dict[str, Any]) -> None:
    archive(tmp_path)
    assert not reuse(later(tmp_path, **changes), CASE, DEVICE)
    assert not (tmp_path / "sessions" / "now").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"complete": False},
        {"status": "no_valid_data"},
        {"device": {**DEVICE, "driver": "590.1"}},
        {"device": {**DEVICE, "uuid": "GPU-2"}},
        {"reused_from": "another"},
        {"kernel": 3},
        {"backward": 1},
    ],
)
def test_a_session_that_does_not_fit_is_not_used(tmp_path: Path, changes: dict[str, Any]) -> None:
    archive(tmp_path, **changes)
    assert not reuse(later(tmp_path), CASE, DEVICE)


def test_samples_of_another_method_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(tmp_path)
    monkeypatch.setattr("kernels.reuse.timing_fingerprint", lambda: "other")
    assert not reuse(later(tmp_path), CASE, DEVICE)


def test_samples_of_another_case_are_not_used(tmp_path: Path) -> None:
    path = archive(tmp_path).path
    path.rename(path.with_name(NAME.replace("n2048", "n4096")))
    assert not reuse(later(tmp_path), CASE, DEVICE)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"schema": 2}', '{"schema": 2, "subjects": {}}'])
def test_a_damaged_archive_is_not_used(tmp_path: Path, content: str) -> None:
    archive(tmp_path).path.write_text(content)
    assert not reuse(later(tmp_path), CASE, DEVICE)
    archive(tmp_path, "good")
    assert reuse(later(tmp_path), CASE, DEVICE)


# ---- subjects ------------------------------------------------------------------------------------------


def test_every_variant_of_every_side_is_a_subject(tmp_path: Path) -> None:
    put_record(tmp_path, OLD, "atomic_add", status="unsupported", message="no such operation")
    put_record(tmp_path, OLD, "inline_asm", status="failed", message="ptxas: boom")
    put_record(tmp_path, OLD, "none", "first", "second")
    of = plan(
        tmp_path, commits=[[OLD, "old"], [NEW, "new"]], variants=["atomic_add", "inline_asm", "none", "store"]
    )
    excluded = {exclusion_key(CASE, NEW, "none"): "did not end"}
    found = {s.key: (s.status, s.message, s.identity) for s in subjects_of(of, CASE, excluded)}
    missing = ("not_compiled", "no record in the evidence store", [])
    assert found == {
        (OLD, 1, "atomic_add"): ("unsupported", "no such operation", []),
        (OLD, 1, "inline_asm"): ("failed", "ptxas: boom", []),
        (OLD, 1, "none"): ("ok", None, ["first", "second"]),
        (OLD, 1, "store"): missing,
        (NEW, 1, "atomic_add"): ("ok", None, ["atomic_add of b"]),
        (NEW, 1, "inline_asm"): ("ok", None, ["inline_asm of b"]),
        (NEW, 1, "none"): ("failed", "did not end", []),
        (NEW, 1, "store"): missing,
    }


def test_a_commit_listed_twice_has_its_subjects_twice(tmp_path: Path) -> None:
    subjects = subjects_of(plan(tmp_path, commits=[[NEW, "new"], [NEW, "again"]]), CASE, {})
    assert [(s.label, s.copy) for s in subjects] == [("new", 1)] * 3 + [("again", 2)] * 3
    assert len({s.key for s in subjects}) == 6


def test_a_kernel_is_left_out_at_its_own_shape_only(tmp_path: Path) -> None:
    other = CASE.slug.replace("n2048", "n4096")
    subjects = subjects_of(plan(tmp_path), CASE, {f"{other} {NEW} none": "hung"})
    assert {s.status for s in subjects} == {"ok"}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"record": {}, "sha256": "0"}'])
def test_a_damaged_record_is_named(tmp_path: Path, content: str) -> None:
    path = put_record(tmp_path, NEW, "none")
    path.write_text(content)
    with pytest.raises(ValueError, match="not a record") as caught:
        subjects_of(plan(tmp_path), CASE, {})
    assert str(path) in str(caught.value)
