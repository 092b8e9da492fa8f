"""Two Tritons side by side: what was compiled and timed of both, as a history of two commits to be judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import Suite
from scripts.tracker.measured import History
from scripts.tracker.model import (
    STATUS_IN_STORE,
    Case,
    CodegenMeasurement,
    Commit,
    MeasurementStatus,
    TimingMeasurement,
    VariantFacts,
)
from scripts.tracker.session_files import SessionFile, read_sessions
from scripts.tracker.store import EvidenceStore
from scripts.tracker.workspace import Workspace

_OK = MeasurementStatus.OK
_STATUS_OF = {name: status for status, name in STATUS_IN_STORE.items()}


@dataclass(frozen=True, slots=True)
class ComparisonWorkspace(Workspace):
    """Of the last comparison: its texts and samples stay for a closer look, until the next one."""

    @property
    def cache(self) -> Path:
        return self.root / ".cache" / "compare"


def history_of(
    workspace: Workspace, sides: Sequence[Commit], suite: Suite, target: str, cases: Sequence[Case]
) -> History:
    """The code of both sides. Raises TrackerError for a record that is missing or damaged, and where no
    variant compiles on both sides: there is nothing to compare."""
    history = History(
        commits=list(sides),
        measurements=[
            _measurement(workspace.evidence, side, target, case, variant)
            for side in sides
            for case in cases
            for variant in suite.variants
        ],
        variants=dict(suite.variants),
        evidence=workspace.evidence,
    )
    compiled = [
        {(m.variant, m.case) for m in history.measurements if (m.commit, m.status) == (side.commit, _OK)}
        for side in sides
    ]
    if not set.intersection(*compiled):
        bad = next(m for m in history.measurements if m.status is not _OK)
        message = (bad.evidence.message if bad.evidence else None) or "no message"
        raise TrackerError(
            f"nothing compiles on both sides; {bad.variant} at {history.label(bad.commit)}: {message}"
        )
    return history


def _measurement(
    store: EvidenceStore, side: Commit, target: str, case: Case, variant: str
) -> CodegenMeasurement:
    record = store.load(target, side.commit, case, variant)
    if record is None:
        raise TrackerError(f"{store.root}: no record of {variant} at {side.label}: run the comparison again")
    return CodegenMeasurement(
        commit=side.commit,
        variant=variant,
        case=case,
        target=target,
        status=_STATUS_OF[record.status],
        metrics=record.metrics or {},
        version=record.fingerprint,
        evidence=record,
    )


def add_times(history: History, folder: Path) -> None:
    """GPU time of one session with both sides. Raises TrackerError for files that are none."""
    documents = read_sessions(folder)
    for document in documents:
        history.timings += _timings(document, history.variants)
        history.canaries += _canaries(document, history.commits)
        history.machines[document.device.machine] = {
            "gpu": document.device.gpu,
            "driver": document.device.driver,
        }


def _timings(document: SessionFile, variants: dict[str, VariantFacts]) -> list[TimingMeasurement]:
    found = []
    for subject in document.subjects:
        if subject.variant not in variants:
            continue
        samples_s = document.samples(subject, "kernel") if subject.status == "ok" else []
        status = MeasurementStatus.OK if samples_s else MeasurementStatus.FAILED
        if subject.status in ("unsupported", "not_compiled"):
            status = MeasurementStatus.SKIPPED  # what its code is, is known from the record
        found.append(_time(document, subject.commit, subject.variant, status, samples_s))
    return found


def _canaries(document: SessionFile, sides: Sequence[Commit]) -> list[TimingMeasurement]:
    """Timed once a session, so the same for both sides."""
    return [
        _time(document, side.commit, name, MeasurementStatus.OK, samples_s)
        for name, canary in document.canaries.items()
        if (samples_s := document.valid(canary.kernel_s, "kernel"))
        for side in sides
    ]


def _time(
    document: SessionFile, commit: str, variant: str, status: MeasurementStatus, samples_s: list[float]
) -> TimingMeasurement:
    case = document.case
    machine = document.device.machine
    return TimingMeasurement(
        commit=commit,
        variant=variant,
        case=Case(case.head_dim, case.causal, case.dtype, case.n_ctx),
        status=status,
        session=document.device.session(document.started_at),
        samples_s=tuple(samples_s),
        version="compare",
        machine=machine,
    )
