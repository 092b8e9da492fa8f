"""A request is one file with all that a GPU machine needs, and nothing of it may leave its folder there."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import COMMITS, FACTS, TARGET, finding, record_document, write_object, write_record

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Verdict
from scripts.tracker.policy import read_policy
from scripts.tracker.request import Request, make_request, plan_of, read_request, unpack, write_request
from scripts.tracker.store import EvidenceStore

POLICY = read_policy().confirm


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    store = tmp_path / "store"
    for commit in COMMITS[:2]:
        for variant in [*FACTS, "support"]:
            cubin = write_object(store, f"cubin of {variant} at {commit.label}".encode())
            write_record(store, record_document(commit, variant, objects={"cubin": cubin}))
    found = replace(finding(Verdict.REGRESSION), before=COMMITS[0], after=COMMITS[1])
    path = tmp_path / "request.json"
    write_request(path, make_request(found, EvidenceStore(store), FACTS, POLICY))
    return path


def test_it_holds_both_sides_their_controls_and_the_support_kernels(
    request_file: Path, tmp_path: Path
) -> None:
    request = read_request(request_file)
    unpack(request, tmp_path / "there")
    there = EvidenceStore(tmp_path / "there")
    case = finding(Verdict.REGRESSION).case
    for commit in COMMITS[:2]:
        for variant in [*request.variants, "support"]:
            record = there.load(TARGET, commit.commit, case, variant)
            assert record is not None
            cubins = [kernel.objects["cubin"] for kernel in record.kernels]
            assert all(there.object_path(digest).exists() for digest in cubins)
    plan = plan_of(request, tmp_path / "there", tmp_path / "out", 1, POLICY)
    assert [label for _, label in plan["commits"]] == [c.label for c in COMMITS[:2]]
    assert plan["seed"] != plan_of(request, tmp_path, tmp_path, 2, POLICY)["seed"]


def test_a_side_that_was_never_compiled_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match="make track RELEASES"):
        make_request(finding(Verdict.REGRESSION), EvidenceStore(tmp_path), FACTS, POLICY)


def test_a_lost_cubin_is_named(request_file: Path) -> None:
    store = EvidenceStore(request_file.parent / "store")
    for path in store.root.glob("objects/*/*"):
        path.unlink()
    found = replace(finding(Verdict.REGRESSION), before=COMMITS[0], after=COMMITS[1])
    with pytest.raises(TrackerError, match="its cubin is not in"):
        make_request(found, store, FACTS, POLICY)


def test_a_moved_reference_is_asked_of_the_ratio(request_file: Path) -> None:
    assert read_request(request_file).of == "time"
    moved = replace(
        finding(Verdict.REGRESSION), before=COMMITS[0], after=COMMITS[1], verdict=Verdict.REFERENCE_MOVED
    )
    store = EvidenceStore(request_file.parent / "store")
    assert make_request(moved, store, FACTS, POLICY).of == "ratio"


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/passwd",
        "records/../../evil.json",
        "records/cuda-90/c/../x.json",
        "objects/ab/short.zst",
        "records/a/b/c/x.json\n",
        "",
    ],
)
def test_a_path_outside_a_store_is_refused(request_file: Path, name: str) -> None:
    request = msgspec.json.decode(request_file.read_bytes(), type=Request)
    hostile = msgspec.structs.replace(request, files={name: base64.b64encode(b"x").decode()})
    request_file.write_bytes(msgspec.json.encode(hostile))
    with pytest.raises(TrackerError, match=r"request\.json: not a request"):
        read_request(request_file)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 5000, b'{"schema": 1}'])
def test_a_damaged_request_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "request.json"
    path.write_bytes(content)
    with pytest.raises(TrackerError, match=r"request\.json: not a request"):
        read_request(path)


@pytest.mark.parametrize(
    "change",
    [
        {"finding": "../../pwn"},
        {"finding": "/etc/x"},
        {"finding": "a\0b"},
        {"case": {}},
        {"of": "bogus"},
        {"reference": "atomic_add"},
        {"variants": ["none"]},
        {"variants": ["atomic_add", "inline_asm", "../x"]},
        {"before": COMMITS[1]},
        {"after": replace(COMMITS[1], label="\x1b[31m")},
    ],
)
def test_a_request_that_is_no_question_is_refused(request_file: Path, change: dict[str, Any]) -> None:
    request = msgspec.json.decode(request_file.read_bytes(), type=Request)
    request_file.write_bytes(msgspec.json.encode(msgspec.structs.replace(request, **change)))
    with pytest.raises(TrackerError, match=r"request\.json: not a request"):
        read_request(request_file)


def test_damaged_content_is_named(request_file: Path, tmp_path: Path) -> None:
    request = read_request(request_file)
    name = next(iter(request.files))
    with pytest.raises(TrackerError, match="is damaged"):
        unpack(msgspec.structs.replace(request, files={name: "not base64!"}), tmp_path / "x")
