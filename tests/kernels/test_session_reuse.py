"""Samples of an earlier session used again: of the same kernels, method and device only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from sessions import CASE, DEVICE, NAME, NEW, OLD, block, case_file, done, plan, put_record

from kernels.plan import Plan
from kernels.reuse import reuse
from kernels.session_file import CaseFile

pytestmark = pytest.mark.usefixtures("store")


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
