"""From result folders and the evidence store to a judgement: collects, then lets the pure part decide."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from scripts.tracker.attribute import NO_HISTORY, UNKNOWN, name_suspects
from scripts.tracker.attribution_rules import read_rules
from scripts.tracker.codegen_diff import judge_codegen
from scripts.tracker.commit_source import find_history
from scripts.tracker.errors import TrackerError
from scripts.tracker.expected import EXPECTED, quiet, read_expected
from scripts.tracker.history import CommitHistory
from scripts.tracker.model import (
    STATUS_IN_STORE,
    CodegenMeasurement,
    Commit,
    MeasurementStatus,
    TimingMeasurement,
    VariantFacts,
)
from scripts.tracker.policy import POLICY_FILE, read_policy
from scripts.tracker.pull_requests import SquashSuffix
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
    timing_measurements,
)
from scripts.tracker.steps import Judgement
from scripts.tracker.store import EvidenceStore
from scripts.tracker.timing_diff import judge_timing
from scripts.tracker.workspace import Workspace

# The only kind of GPU that times are taken on so far.
TIMED_TARGET = "cuda:90"
_YEAR_9999_MS = 253_370_764_800_000  # what datetime can say
_M = TypeVar("_M", CodegenMeasurement, TimingMeasurement)


@dataclass(slots=True)
class History:
    """Everything that was measured, ready to be judged.

    ``commits``: first-parent order. ``problems``: files that could not be read; a judgement with
    problems is incomplete. ``notes``: what was left out on purpose, and why. ``triton``: where the commits
    between the measured ones can be looked up.
    """

    commits: list[Commit] = field(default_factory=list)
    measurements: list[CodegenMeasurement] = field(default_factory=list)
    timings: list[TimingMeasurement] = field(default_factory=list)
    failures: dict[str, dict[str, BuildFailure]] = field(default_factory=dict)
    variants: dict[str, VariantFacts] = field(default_factory=dict)
    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    flops: dict[tuple[int, int, bool], float] = field(default_factory=dict)
    problems: list[TrackerError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    triton: CommitHistory | None = None

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

    def label(self, commit: str) -> str:
        """What people call a commit."""
        return next((c.label for c in self.commits if c.commit == commit), commit[:10])


def load_history(workspace: Workspace) -> History:
    """Read local and recorded results, with their evidence. Local results stand before recorded ones."""
    history = History()
    measurements: dict[object, CodegenMeasurement] = {}
    timings: dict[object, TimingMeasurement] = {}
    for root in (workspace.results, workspace.recorded):
        for results in _load_folder(root, history):
            try:
                for m in codegen_measurements(results):
                    measurements.setdefault((m.commit, m.variant, m.case, m.target), m)
                for t in timing_measurements(results):
                    timings.setdefault((t.commit, t.variant, t.case, t.machine), t)
            except TrackerError as error:
                history.problems.append(error)
    history.measurements = [
        _attach(measurement, workspace.evidence, history)
        for measurement in _of_one_version(list(measurements.values()), history)
    ]
    history.timings = _of_the_same_kernels(_of_one_version(list(timings.values()), history), history)
    bare = sum(m.evidence is None for m in history.measurements)
    if bare:
        history.notes.append(f"{bare} results have no record in the evidence store: make track renews it")
    ordered = {c.commit for c in history.commits}
    found = [m.commit for m in history.measurements] + [t.commit for t in history.timings]
    strays = sorted({commit[:10] for commit in found if commit not in ordered})
    if strays:
        history.notes.append(f"not in the history of commits, so not compared: {', '.join(strays)}")
    try:
        history.triton = find_history(workspace.cache)
    except TrackerError as error:
        history.problems.append(error)
    return history


def judge(history: History) -> Judgement:
    """Findings of everything measured. Raises TrackerError if there is nothing to judge."""
    if not history.measurements and not history.timings:
        remedy = "run make track first"
        if history.problems:
            remedy = "; ".join(map(str, history.problems))
        raise TrackerError(f"nothing is measured yet: {remedy}")
    if not history.variants or not history.commits:
        reason = "; ".join(map(str, history.problems)) or "run make track again"
        raise TrackerError(f"roles and order are unknown without variants.json and commits.json: {reason}")
    roles = {variant: facts.role for variant, facts in history.variants.items()}
    policy = read_policy()
    known = {name for m in history.measurements for name in m.metrics}
    unknown = [rule.metric for rule in policy.codegen.rule if rule.metric not in known]
    if known and unknown:
        history.notes.append(f"{POLICY_FILE.name} asks for what no result has: {', '.join(unknown)}")
    of_code = judge_codegen(history.measurements, history.commits, roles, policy.codegen)
    compiled = {
        (m.commit, m.variant, m.case)
        for m in history.measurements
        if m.target == TIMED_TARGET and m.status is MeasurementStatus.OK
    }
    judgement = judge_timing(
        history.timings, history.commits, roles, policy.timing, TIMED_TARGET, of_code, compiled
    )
    found = quiet(judgement.findings, read_expected(), history.commits)
    judgement.findings = found.left
    judgement.expected = [(finding, change.reason) for finding, change in found.quiet]
    judgement.counts[EXPECTED] += len(found.quiet)
    judgement.counts += Counter()
    history.notes += [f"expected_changes.toml: {c.variant}, {c.until}: quiets nothing" for c in found.idle]
    _name_suspects(judgement, history)
    return judgement


def _name_suspects(judgement: Judgement, history: History) -> None:
    if judgement.findings and history.triton is None:
        history.notes.append(NO_HISTORY)
    measured = {m.commit for m in history.measurements}
    judgement.findings = name_suspects(
        judgement.findings, history.triton, measured, read_rules(), SquashSuffix()
    )
    if history.triton is not None:
        unknown = Counter(f.attribution for f in judgement.findings if f.attribution.startswith(UNKNOWN))
        more = f" (and {len(unknown) - 1} more reasons: scripts.attribute)" if len(unknown) > 1 else ""
        for reason in list(unknown)[:1]:
            history.notes.append(f"{unknown.total()} findings, {reason}{more}")


def _load_folder(root: Path, history: History) -> list[CommitResults]:
    """The readable results of a folder; its lists and its problems go into the history."""
    try:
        known = {c.commit for c in history.commits}
        history.commits += [c for c in read_commits(root) if c.commit not in known]
        history.variants = {**read_variants(root), **history.variants}
        history.machines = {**read_machines(root), **history.machines}
        history.flops = {**read_flops(root), **history.flops}
        for target, failures in read_failures(root).items():
            history.failures.setdefault(target, {}).update(failures)
    except TrackerError as error:
        history.problems.append(error)
    results, errors = read_results(root)
    history.problems += errors
    return results


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
