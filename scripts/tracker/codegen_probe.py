"""Asks a commit for one metric of its generated code: from what is stored, or by compiling it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.tracker.bisection import Answer, Probe, Probed
from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import AsvHarness, record_failure
from scripts.tracker.model import Case, CodegenMeasurement, Commit, Finding, MeasurementStatus, Verdict
from scripts.tracker.releases import wheelhouse
from scripts.tracker.results import codegen_measurements
from scripts.tracker.store import EvidenceStore
from scripts.tracker.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Question:
    """Does this metric still have the value that it had at the older end?"""

    variant: str
    case: Case
    target: str
    metric: str
    before: float

    def answer(self, measured: CodegenMeasurement | None) -> Probed:
        """A third value is neither the old nor the new one, but not the old one: NEW."""
        if measured is None:
            return Probed(Answer.SKIPPED, "not measured")
        value = measured.metrics.get(self.metric)
        if measured.status is not MeasurementStatus.OK or value is None:
            return Probed(Answer.SKIPPED, f"{self.variant} has no {self.metric}: {measured.status.value}")
        answer = Answer.OLD if value == self.before else Answer.NEW
        return Probed(answer, f"{self.metric} {value:g}")


@dataclass(frozen=True, slots=True)
class ScratchWorkspace(Workspace):
    """The same checkout with a cache, results and evidence of its own: nothing stored is found there."""

    folder: Path

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def staging(self) -> Path:
        return self.folder / "staging"

    @property
    def cache(self) -> Path:
        return self.folder

    @property
    def evidence(self) -> EvidenceStore:
        return EvidenceStore(self.folder / "evidence")


def question_of(finding: Finding) -> tuple[str, str]:
    """(variant, metric) that decide about a finding: the heaviest change of the variant that moved.
    Raises TrackerError where time alone speaks."""
    moved = finding.reference if finding.verdict is Verdict.REFERENCE_MOVED else finding.candidate
    for change in finding.codegen_changes:
        if change.variant == moved:
            return moved, change.metric
    raise TrackerError(
        f"finding {finding.id} is of GPU time alone: no metric of the code moved, so compiling cannot "
        "decide; it needs a GPU to confirm each commit"
    )


def stored_measurement(harness: AsvHarness, commit: str, question: Question) -> CodegenMeasurement | None:
    """What is stored of a commit, if it is whole and of these very sources."""
    if not harness.is_done(commit):
        return None
    results = harness.existing(commit)
    found = codegen_measurements(results) if results else []
    wanted = (question.variant, question.case, question.target)
    return next((m for m in found if (m.variant, m.case, m.target) == wanted), None)


def codegen_probe(
    harness: AsvHarness, fresh_harness: Callable[[], AsvHarness], question: Question, compiles: bool
) -> Probe:
    """``fresh_harness``: makes one of an empty workspace. ``compiles``: False: only the store answers."""

    def ask(commit: Commit, fresh: bool) -> Probed:
        if fresh and not compiles:
            return Probed(Answer.SKIPPED, "compiling is switched off")
        used = fresh_harness() if fresh else harness
        found = stored_measurement(used, commit.commit, question)
        if found is None and compiles:
            failure = used.measure(commit, lambda records: None)
            if not fresh:
                record_failure(used.workspace.results, used.target, commit.commit, failure)
            if failure is not None:
                return Probed(Answer.SKIPPED, f"cannot be measured: {failure.reason}")
            found = stored_measurement(used, commit.commit, question)
            shutil.rmtree(wheelhouse(used.workspace.cache), ignore_errors=True)
        return question.answer(found)

    def costs(commit: Commit) -> bool:
        return compiles and not harness.is_done(commit.commit)

    return Probe(ask, costs)
