"""The file of one case: always whole, gone on with by its own plan only, and used again where it fits."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from sessions import CASE, DEVICE, NEW, OLD, block, case_file, plan, put_record, written

from kernels import session_file
from kernels.session_file import (
    Stopwatch,
    exclusion_key,
    read_session_file,
    subjects_of,
)

pytestmark = pytest.mark.usefixtures("store")


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
