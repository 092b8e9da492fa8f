"""Feeding this Triton's own texts back gives its own kernels again; what it does not take is refused.

Without that, what another Triton's text gives would prove nothing.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kernels.compile import STAGES, Case
from kernels.evidence import EvidenceWriter, read_record

pytest.importorskip("triton", reason="needs a Triton: make test runs it in .venv-kernels")

from kernels.record import record_one
from kernels.substitute import Refused, feed_record, run_plan

ROOT = Path(__file__).resolve().parents[2]
TARGET = "cuda:90"
CASE = Case(64, True, "fp16")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evidence")


def recorded(store: Path, variant: str) -> tuple[Path, dict[str, Any]]:
    writer = EvidenceWriter(store)
    record = record_one(writer, "own", TARGET, CASE, variant)
    assert record["status"] == "ok"
    return writer.record_path(TARGET, "own", CASE.slug, variant), record


def identity(record: dict[str, Any]) -> list[str]:
    return [kernel["identity"] for kernel in record["kernels"]]


@pytest.mark.parametrize(
    ("variant", "stage"), [*(("atomic_add", stage) for stage in STAGES), ("two_pass", "ttgir")]
)
def test_its_own_text_gives_its_own_kernel_again(store: Path, variant: str, stage: str) -> None:
    """two_pass has two kernels, the second with launch settings of its own."""
    _, record = recorded(store, variant)
    fed = feed_record(store, record, record, stage)
    assert fed["identity"] == identity(record)
    made = {name: value for name, value in record["metrics"].items() if name != "compile_duration_s"}
    assert fed["metrics"] == made


def with_text(store: Path, record: dict[str, Any], stage: str, text: str) -> dict[str, Any]:
    """The record with another text of a stage."""
    changed: dict[str, Any] = json.loads(json.dumps(record))
    changed["kernels"][0]["objects"][stage] = EvidenceWriter(store).put_object(text.encode())
    return changed


def text_of(store: Path, record: dict[str, Any], stage: str) -> str:
    from kernels.evidence import read_object

    return read_object(store, record["kernels"][0]["objects"][stage]).decode()


@pytest.mark.parametrize("stage", ["ttir", "ttgir"])
def test_what_is_fed_decides(store: Path, stage: str) -> None:
    """The order of the atomics is changed in the text: the machine code must follow."""
    _, record = recorded(store, "atomic_add")
    text = text_of(store, record, stage)
    assert "acq_rel" in text
    relaxed = with_text(store, record, stage, text.replace("acq_rel", "relaxed"))
    fed = feed_record(store, relaxed, record, stage)
    assert record["metrics"]["gpu_fences"] > 0
    assert fed["metrics"]["gpu_fences"] == 0
    assert fed["metrics"]["sass_dq_writes"] == record["metrics"]["sass_dq_writes"]


def test_an_older_or_newer_number_of_ptx_is_read_as_ours(store: Path) -> None:
    _, record = recorded(store, "atomic_add")
    text = text_of(store, record, "ptx")
    [version] = [line for line in text.splitlines() if line.startswith(".version")]
    newer = with_text(store, record, "ptx", text.replace(version, ".version 99.9"))
    assert feed_record(store, newer, record, "ptx")["identity"] == identity(record)


@pytest.mark.parametrize("stage", STAGES)
def test_what_it_does_not_take_is_refused_in_its_own_words(store: Path, stage: str) -> None:
    _, record = recorded(store, "atomic_add")
    text = text_of(store, record, stage)
    broken = with_text(store, record, stage, text[: len(text) // 2] + "\n%%% no such thing %%%\n")
    with pytest.raises(Refused) as refused:
        feed_record(store, broken, record, stage)
    reason = str(refused.value)
    assert reason
    assert "\n" not in reason
    assert tempfile.gettempdir() not in reason


def test_the_command_writes_every_trial(store: Path, tmp_path: Path) -> None:
    path, record = recorded(store, "atomic_add")
    broken = with_text(store, record, "ttgir", "no IR")
    other = path.with_name("broken.json")
    EvidenceWriter(store).put_record(other, broken)
    plan = {"store": str(store), "records": {"before": str(other), "after": str(path)}, "tools": "after"}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    subprocess.run(
        [sys.executable, "-m", "kernels.substitute", tmp_path / "plan.json", tmp_path / "trials.json"],
        cwd=ROOT, check=True,
    )  # fmt: skip
    trials = json.loads((tmp_path / "trials.json").read_text())
    assert [(t["text_of"], t["stage"]) for t in trials] == [
        (s, g) for s in ("before", "after") for g in STAGES
    ]
    refused = {(t["text_of"], t["stage"]) for t in trials if "refused" in t}
    assert refused == {("before", "ttgir")}
    assert {tuple(t["identity"]) for t in trials if "refused" not in t} == {tuple(identity(record))}


def test_a_damaged_record_is_named(store: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{")
    plan = {"store": str(store), "records": {"before": str(damaged), "after": str(damaged)}, "tools": "after"}
    with pytest.raises(ValueError, match=r"damaged\.json"):
        run_plan(plan)
    assert read_record(recorded(store, "atomic_add")[0])
