"""Everything that was measured, from result folders and the evidence store, ready to be judged."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from scripts.tracker.commit_source import find_history
from scripts.tracker.confirmation import read_confirmations
from scripts.tracker.errors import TrackerError
from scripts.tracker.history import CommitHistory
from scripts.tracker.model import (
    STATUS_IN_STORE,
    CodegenMeasurement,
    Commit,
    Confirmation,
    TimingMeasurement,
    VariantFacts,
)
from scripts.tracker.renames import read_renames, renamed
from scripts.tracker.results import (
    BuildFailure,
    CommitResults,
    codegen_measurements,
    read_commits,
    read_failures,
    read_flops,
    read_machines,
    read_results,
    read_variants,
)
from scripts.tracker.store import EvidenceStore
from scripts.tracker.timed_results import canary_measurements, timing_measurements
from scripts.tracker.workspace import Workspace

_YEAR_9999_MS = 253_370_764_800_000  # what datetime can say
_M = TypeVar("_M", CodegenMeasurement, TimingMeasurement)


@dataclass(slots=True)
class History:
    """Everything that was measured, ready to be judged.

    ``commits``: first-parent order. ``problems``: files that could not be read; a judgement with
    problems is incomplete. ``notes``: what was left out on purpose, and why. ``evidence``: where the texts
    behind the measurements are. ``confirmations``: {finding: what fresh sessions said}. ``triton``: where the
    commits between the measured ones can be looked up.
    """

    commits: list[Commit] = field(default_factory=list)
    measurements: list[CodegenMeasurement] = field(default_factory=list)
    timings: list[TimingMeasurement] = field(default_factory=list)
    canaries: list[TimingMeasurement] = field(default_factory=list)
    failures: dict[str, dict[str, BuildFailure]] = field(default_factory=dict)
    variants: dict[str, VariantFacts] = field(default_factory=dict)
    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    flops: dict[tuple[int, int, bool], float] = field(default_factory=dict)
    problems: list[TrackerError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    triton: CommitHistory | None = None
    confirmations: dict[str, Confirmation] = field(default_factory=dict)
    evidence: EvidenceStore | None = None

    def timed_on(self) -> list[str]:
        """Where and when GPU time was taken, like "NVIDIA H200, driver 580.159.04, 2026-12-01"."""
        found = {(t.machine, t.session) for t in self.timings}
        lines = []
        for machine, session in sorted(found):
            facts = self.machines.get(machine, {})
            started_ms = int(session.rpartition(" ")[2]) if session.rpartition(" ")[2].isdigit() else 0
            started_ms = started_ms if started_ms < _YEAR_9999_MS else 0
            day = datetime.datetime.fromtimestamp(started_ms / 1000, datetime.UTC).date()
            gpu, driver = facts.get("gpu", "unknown GPU"), facts.get("driver", "unknown")
            lines.append(f"{gpu}, driver {driver}, {day if started_ms else 'unknown day'}")
        return list(dict.fromkeys(lines))

    def only(self, commits: set[str]) -> None:
        """Keep what was measured of these commits."""
        self.measurements = [m for m in self.measurements if m.commit in commits]
        self.timings = [t for t in self.timings if t.commit in commits]
        self.canaries = [t for t in self.canaries if t.commit in commits]

    def label(self, commit: str) -> str:
        """What people call a commit."""
        return next((c.label for c in self.commits if c.commit == commit), commit[:10])


def load_history(workspace: Workspace) -> History:
    """Read local and recorded results, with their evidence. Local results stand before recorded ones."""
    history = History(evidence=workspace.evidence)
    measurements: dict[object, CodegenMeasurement] = {}
    timings: dict[object, TimingMeasurement] = {}
    canaries: dict[object, TimingMeasurement] = {}
    renames = read_renames()
    for root in (workspace.results, workspace.recorded):
        for found in _load_folder(root, history):
            try:
                results = renamed(found, renames)
                for m in codegen_measurements(results):
                    measurements.setdefault((m.commit, m.variant, m.case, m.target), m)
                # A commit measured again has several sessions; the same one twice is one.
                for into, of in ((timings, timing_measurements), (canaries, canary_measurements)):
                    for t in of(results):
                        into.setdefault((t.commit, t.variant, t.case, t.epoch_key, t.session), t)
            except TrackerError as error:
                history.problems.append(error)
    history.measurements = [
        _attach(measurement, workspace.evidence, history)
        for measurement in _of_one_version(list(measurements.values()), history)
    ]
    history.timings = _of_the_same_kernels(_of_one_version(list(timings.values()), history), history)
    history.canaries = _beside(history.timings, _of_one_version(list(canaries.values()), history))
    if both := sorted({t.variant for t in history.canaries} & set(history.variants)):
        history.canaries = [t for t in history.canaries if t.variant not in both]
        history.problems.append(
            TrackerError(f"{', '.join(both)}: a canary has the name of a variant; rename it in benchmarks/")
        )
    _note_what_is_apart(history)
    try:
        history.triton = find_history(workspace.cache)
    except TrackerError as error:
        history.problems.append(error)
    return history


def _note_what_is_apart(history: History) -> None:
    """Results without evidence, and commits outside the order."""
    bare = sum(m.evidence is None for m in history.measurements)
    if bare:
        history.notes.append(f"{bare} results have no record in the evidence store: make track renews it")
    ordered = {c.commit for c in history.commits}
    measured = [m.commit for m in history.measurements] + [t.commit for t in history.timings]
    strays = sorted({commit[:10] for commit in measured if commit not in ordered})
    if strays:
        history.notes.append(f"not in the history of commits, so not compared: {', '.join(strays)}")


def _load_folder(root: Path, history: History) -> list[CommitResults]:
    """The readable results of a folder; its lists and its problems go into the history."""
    try:
        history.commits = _merged(history.commits, read_commits(root))
        history.variants = {**read_variants(root), **history.variants}
        history.machines = {**read_machines(root), **history.machines}
        history.flops = {**read_flops(root), **history.flops}
        history.confirmations = {**read_confirmations(root / "confirmations"), **history.confirmations}
        for target, failures in read_failures(root).items():
            history.failures.setdefault(target, {}).update(failures)
    except TrackerError as error:
        history.problems.append(error)
    results, errors = read_results(root)
    history.problems += errors
    return results


def _merged(known: list[Commit], more: list[Commit]) -> list[Commit]:
    """One order of two lists: a commit that only the second has stands after its predecessor there, not at
    the end, where it would look newer than all."""
    merged = list(known)
    place = {c.commit: i for i, c in enumerate(merged)}
    after = -1
    for commit in more:
        if commit.commit in place:
            after = place[commit.commit]
            continue
        after = after + 1 if known else len(merged)
        merged.insert(after, commit)
        place = {c.commit: i for i, c in enumerate(merged)}
    return merged


def _of_one_version(measurements: list[_M], history: History) -> list[_M]:
    """Keep the version (fingerprint of kernels and method) that most commits have: another is another
    kernel, and a difference between the two is not Triton's."""
    commits_by_version: dict[str, set[str]] = {}
    for m in measurements:
        commits_by_version.setdefault(m.version, set()).add(m.commit)
    if not commits_by_version:
        return []
    kept = max(commits_by_version, key=lambda version: (len(commits_by_version[version]), version))
    left_out = Counter({v: len(c) for v, c in commits_by_version.items() if v != kept})
    history.notes += [
        f"{n} commits were measured with other kernels (version {v}): not compared, make track renews them"
        for v, n in left_out.items()
    ]
    return [m for m in measurements if m.version == kept]


def _of_the_same_kernels(timings: list[TimingMeasurement], history: History) -> list[TimingMeasurement]:
    """GPU time of the kernels whose code was measured. Versions are "KERNELS.METHOD" (`kernels.fingerprint`);
    time of other kernels says nothing about this code."""
    if not timings or not history.measurements:
        return timings
    kernels = history.measurements[0].version.split(".")[0]
    if timings[0].version.split(".")[0] == kernels:
        return timings
    history.notes.append(
        "the GPU time is of other kernels (other sources in kernels/) than the code, and is left out"
    )
    return []


def _beside(timings: list[TimingMeasurement], canaries: list[TimingMeasurement]) -> list[TimingMeasurement]:
    """The canaries of the sessions that are compared, as of their epoch: the suites' versions differ."""
    versions = {(t.commit, t.session): t.version for t in timings}
    return [
        replace(t, version=versions[t.commit, t.session])
        for t in canaries
        if (t.commit, t.session) in versions
    ]


def _attach(m: CodegenMeasurement, evidence: EvidenceStore, history: History) -> CodegenMeasurement:
    try:
        record = evidence.load(m.target, m.commit, m.case, m.variant)
    except TrackerError as error:
        history.problems.append(error)
        return m
    if record is None or record.fingerprint != m.version:
        return m
    if record.status != STATUS_IN_STORE[m.status]:
        history.problems.append(
            TrackerError(
                f"asv says that {m.variant} at {history.label(m.commit)} is {m.status.value}, the evidence "
                f"store says {record.status}: delete .asv/results and run make track again"
            )
        )
        return m
    return replace(m, evidence=record)
