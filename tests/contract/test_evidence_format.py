"""The measuring half writes evidence, the judging half reads it; they share no code, only this format."""

from pathlib import Path
from typing import Any

import pytest

from kernels import evidence as writing
from scripts.tracker import store as reading
from scripts.tracker.model import Case, Stage

CASE = Case(128, False, "bf16")
COMMIT = "0123456789" * 4
TEXTS = {stage.value: f"{stage}: é\n" * 300 for stage in Stage}


@pytest.fixture
def record(tmp_path: Path) -> dict[str, Any]:
    """A record as kernels.record makes it, written by kernels.evidence."""
    writer = writing.EvidenceWriter(tmp_path)
    kernel = {
        "role": "backward",
        "identity": "a" * 64,
        "signature": {"Q": "*bf16"},
        "constexprs": {"HEAD_DIM": 128},
        "launch": {"num_warps": 8, "cluster_dims": [1, 1, 1]},
        "durations_s": {"ttir": 0.25},
        "objects": {
            "cubin": writer.put_object(bytes(range(256)) * 9),
            **{stage: writer.put_object(text.encode()) for stage, text in TEXTS.items()},
        },
        "metrics": {"dq_writes": 16, "dq_layout_conversions": 1.0, "spill_loads": None},
        "dq_path": {"ttir": {"tt.atomic_rmw": 2}, "sass": {"REDG": 16}},
        "opcodes": {"REDG": 16},
    }
    record = {
        "schema": writing.SCHEMA,
        "commit": COMMIT,
        "triton_version": "3.2.0",
        "fingerprint": "ebccec6b1d22079f",
        "disassembler": "13.5.37",
        "target": "cuda:90",
        "case": {"head_dim": 128, "causal": False, "dtype": "bf16"},
        "variant": "atomic_add",
        "role": "candidate",
        "exact": True,
        "status": "ok",
        "message": "ptxas said “é”\n",
        "kernels": [kernel],
        "metrics": {"dq_writes": 16},
    }
    writer.put_record(writer.record_path("cuda:90", COMMIT, CASE.slug, "atomic_add"), record)
    return record


def test_what_one_half_writes_the_other_reads(tmp_path: Path, record: dict[str, Any]) -> None:
    store = reading.EvidenceStore(tmp_path)
    assert list(store.verify()) == []
    assert store.count_records("cuda:90", COMMIT) == 1
    found = store.load("cuda:90", COMMIT, CASE, "atomic_add")
    assert found is not None
    for name in ("commit", "triton_version", "fingerprint", "variant", "status", "message"):
        assert getattr(found, name) == record[name]
    [kernel] = found.kernels
    for name in ("role", "identity", "dq_path", "objects", "opcodes"):
        assert getattr(kernel, name) == record["kernels"][0][name]
    assert {stage: store.text(kernel.objects[stage]) for stage in TEXTS} == TEXTS


def test_both_halves_have_the_same_schema_and_limit() -> None:
    assert writing.SCHEMA == reading.SCHEMA
    assert writing._MAX_OBJECT_BYTES == reading._MAX_OBJECT_BYTES


@pytest.mark.parametrize("status", ["unsupported", "failed"])
def test_a_record_without_kernels(tmp_path: Path, record: dict[str, Any], status: str) -> None:
    writer = writing.EvidenceWriter(tmp_path)
    path = writer.record_path("cuda:90", COMMIT, CASE.slug, "descriptor_add")
    other = {"variant": "descriptor_add", "status": status, "message": "no such operation", "kernels": []}
    writer.put_record(path, {**record, **other, "metrics": None})
    found = reading.EvidenceStore(tmp_path).load("cuda:90", COMMIT, CASE, "descriptor_add")
    assert found is not None
    assert (found.status, found.kernels, found.identity) == (status, (), ())


def test_a_case_has_the_same_folder_in_both_halves() -> None:
    from kernels.compile import Case as MeasuredCase

    for arguments in ((64, True, "fp16"), (128, False, "bf16")):
        assert MeasuredCase(*arguments).slug == Case(*arguments).slug
