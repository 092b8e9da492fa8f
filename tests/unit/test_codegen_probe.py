"""A commit is asked for one metric of one variant: stored first, compiled if it may be."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import (
    HD64,
    NARROWER,
    NEW,
    OLD,
    SUITE,
    TARGET,
    THEIRS,
    asv_document,
    finding,
    measured,
    record_document,
    write_asv,
    write_object,
    write_record,
)

from scripts.tracker.bisection import Answer, Probed
from scripts.tracker.codegen_probe import Question, ScratchWorkspace, codegen_probe, question_of
from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Commit, MeasurementStatus, Verdict
from scripts.tracker.results import BuildFailure
from scripts.tracker.workspace import Workspace

QUESTION = Question("atomic_add", HD64, TARGET, "dq_writes", before=8.0)


class FakeHarness:
    """Stores what it is asked to measure, as asv would; the real one is tested on its own."""

    def __init__(self, workspace: Workspace, values: dict[str, float | str]) -> None:
        from scripts.tracker.harness import AsvHarness

        self.workspace, self.values = workspace, values
        self.target, self.machine, self.suite = TARGET, "codegen-cuda-90", SUITE
        self.measured: list[str] = []
        self.existing = AsvHarness.existing.__get__(self)
        self.is_done = AsvHarness.is_done.__get__(self)

    def measure(self, commit: Commit, on_tick: Any) -> BuildFailure | None:
        self.measured.append(commit.label)
        value = self.values[commit.label]
        if isinstance(value, str):
            return BuildFailure(value, transient=False)
        write_asv(
            self.workspace.results,
            asv_document(commit, {"atomic_add": {"dq_writes": value, "registers": 255.0}}),
        )
        store = self.workspace.evidence.root
        write_record(store, record_document(commit, objects={"ptx": write_object(store, b"text")}))
        return None


@pytest.fixture
def harness(tmp_path: Path) -> FakeHarness:
    return FakeHarness(Workspace(tmp_path), {OLD.label: 8.0, NEW.label: 32.0})


def probe(harness: FakeHarness, compiles: bool = True, fresh: FakeHarness | None = None):
    return codegen_probe(harness, lambda: fresh or harness, QUESTION, compiles)  # type: ignore[arg-type]


def test_a_commit_is_compiled_once_and_then_read(harness: FakeHarness) -> None:
    asked = probe(harness)
    assert asked.costs(NEW)
    assert asked.ask(NEW, False) == Probed(Answer.NEW, "dq_writes 32")
    assert not asked.costs(NEW)
    assert asked.ask(NEW, False).answer is Answer.NEW
    assert asked.ask(OLD, False) == Probed(Answer.OLD, "dq_writes 8")
    assert harness.measured == [NEW.label, OLD.label]


def test_fresh_does_not_read_what_is_stored(harness: FakeHarness, tmp_path: Path) -> None:
    probe(harness).ask(OLD, False)
    other = FakeHarness(ScratchWorkspace(tmp_path, tmp_path / "scratch"), {OLD.label: 16.0})
    assert probe(harness, fresh=other).ask(OLD, True) == Probed(Answer.NEW, "dq_writes 16")
    assert other.measured == [OLD.label]
    assert probe(harness).ask(OLD, False).answer is Answer.OLD  # what was stored is untouched


def test_what_does_not_build_is_skipped_with_its_reason(harness: FakeHarness) -> None:
    harness.values[NEW.label] = "no wheel of triton==3.2.0"
    assert probe(harness).ask(NEW, False) == Probed(
        Answer.SKIPPED, "cannot be measured: no wheel of triton==3.2.0"
    )
    failures = (harness.workspace.results / "failures.json").read_text()
    assert NEW.commit in failures


def test_without_compiling_the_store_alone_answers(harness: FakeHarness) -> None:
    asked = probe(harness, compiles=False)
    assert not asked.costs(NEW)
    assert asked.ask(NEW, False) == Probed(Answer.SKIPPED, "not measured")
    assert asked.ask(NEW, True) == Probed(Answer.SKIPPED, "compiling is switched off")
    assert harness.measured == []


@pytest.mark.parametrize(
    ("measurement", "answer"),
    [
        (measured(NEW, "atomic_add", {"dq_writes": 8.0}), Answer.OLD),
        (measured(NEW, "atomic_add", {"dq_writes": 16.0}), Answer.NEW),
        (measured(NEW, "atomic_add", {"dq_writes": None}), Answer.SKIPPED),
        (measured(NEW, "atomic_add", status=MeasurementStatus.SKIPPED), Answer.SKIPPED),
        (measured(NEW, "atomic_add", status=MeasurementStatus.FAILED), Answer.SKIPPED),
        (None, Answer.SKIPPED),
    ],
)
def test_answers(measurement: Any, answer: Answer) -> None:
    assert QUESTION.answer(measurement).answer is answer


def test_the_heaviest_change_of_the_variant_that_moved_decides() -> None:
    assert question_of(finding(Verdict.REGRESSION, THEIRS, NARROWER)) == ("atomic_add", "dq_vector_width")
    moved = finding(Verdict.REFERENCE_MOVED, NARROWER, THEIRS)
    assert question_of(moved) == ("inline_asm", "dq_layout_conversions")


def test_time_alone_cannot_be_decided_by_compiling() -> None:
    with pytest.raises(TrackerError, match="GPU time alone"):
        question_of(replace(finding(Verdict.REGRESSION), evidence=("timing",)))
