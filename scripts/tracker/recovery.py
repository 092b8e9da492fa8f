"""What became of a finding at later commits: its ratio over commits, and where it ended. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scripts.tracker.groups import FindingGroup
from scripts.tracker.measured import History
from scripts.tracker.model import Case, Commit, Finding, MeasurementStatus, TimingMeasurement, Verdict
from scripts.tracker.policy import CodegenRule, Policy
from scripts.tracker.timing import hodges_lehmann, leg, log_ratios


@dataclass(frozen=True, slots=True)
class RatioPoint:
    """A candidate's time over a reference's at one commit, within one session."""

    commit: Commit
    ratio: float


class Measured:
    """A history by what was measured, so that a thousand findings ask quickly."""

    def __init__(self, history: History) -> None:
        self.commits = history.commits
        self.times = {(t.machine, t.commit, t.variant, t.case): t for t in history.timings}
        self.codes = {(m.target, m.commit, m.variant, m.case): m for m in history.measurements}
        self._known = {t.commit for t in history.timings} | {m.commit for m in history.measurements}
        self.machines = sorted({t.machine for t in history.timings})

    def has(self, commit: str) -> bool:
        """Whether a commit is measured: only then does the absence of a finding say something."""
        return commit in self._known

    def machine_of(self, finding: Finding) -> str | None:
        """Where a finding's two commits were timed."""
        for machine in self.machines:
            ends = (finding.before.commit, finding.after.commit)
            if all(self.time(machine, commit, finding.candidate, finding.case) for commit in ends):
                return machine
        return None

    def time(self, machine: str, commit: str, variant: str, case: Case) -> TimingMeasurement | None:
        found = self.times.get((machine, commit, variant, case))
        return found if found and found.status is MeasurementStatus.OK and found.samples_s else None

    def metric(self, finding: Finding, commit: str, metric: str) -> float | None:
        """A metric of the candidate's code; None if not measured or not compiled."""
        case = replace(finding.case, n_ctx=None, batch=None, heads=None)
        found = self.codes.get((finding.target, commit, finding.candidate, case))
        return found.metrics.get(metric) if found and found.status is MeasurementStatus.OK else None

    def after(self, finding: Finding) -> list[Commit]:
        """Commits of the history behind a finding's."""
        places = [i for i, c in enumerate(self.commits) if c.commit == finding.after.commit]
        return self.commits[places[0] + 1 :] if places else []


def ratios(finding: Finding, measured: Measured) -> list[RatioPoint]:
    """The finding's ratio at every commit timed on its machine; a commit without one is left out."""
    machine = measured.machine_of(finding)
    points = []
    for commit in measured.commits if machine else []:
        ratio = _ratio(finding, commit.commit, machine or "", measured)
        if ratio is not None:
            points.append(RatioPoint(commit, ratio))
    return points


def recovered_at(group: FindingGroup, measured: Measured, policy: Policy) -> Commit | None:
    """The commit from which on no finding of a regression is seen any more; None while one is, and where
    nothing later is measured."""
    if group.verdict is not Verdict.REGRESSION:
        return None
    ends = [_end_of(finding, measured, policy) for finding in group.of(Verdict.REGRESSION)]
    if any(end is None for end in ends):
        return None
    order = {c.commit: i for i, c in enumerate(measured.commits)}
    return max((end for end in ends if end), key=lambda commit: order[commit.commit])


def _end_of(finding: Finding, measured: Measured, policy: Policy) -> Commit | None:
    """The first of the later commits that are all as good as before, in an unbroken row up to the newest."""
    machine = measured.machine_of(finding) if finding.change is not None else None
    rules = {rule.metric: rule for rule in policy.codegen.rule}
    end = None
    for commit in reversed(measured.after(finding)):
        if machine:
            good = _time_is_back(finding, commit.commit, machine, measured, policy)
        else:
            good = _code_is_back(finding, commit.commit, measured, rules)
        if good is False:
            break
        end = commit if good else end
    return end


def _time_is_back(
    finding: Finding, commit: str, machine: str, measured: Measured, policy: Policy
) -> bool | None:
    """None: not measured there. The candidate's own time where one session holds both, else the ratio."""
    least = policy.timing.min_relative_change
    before = measured.time(machine, finding.before.commit, finding.candidate, finding.case)
    now = measured.time(machine, commit, finding.candidate, finding.case)
    ratio = _ratio(finding, commit, machine, measured)
    if before is None or now is None or ratio is None or finding.ratio_before is None:
        return None
    try:
        return leg(before, now) < least
    except ValueError:
        return ratio < finding.ratio_before * (1 + least)


def _code_is_back(
    finding: Finding, commit: str, measured: Measured, rules: dict[str, CodegenRule]
) -> bool | None:
    known = False
    for change in finding.codegen_changes:
        rule = rules.get(change.metric)
        if rule is None or change.variant != finding.candidate:
            continue
        if rule.direction(change.before, change.after) <= 0:
            continue
        value = measured.metric(finding, commit, change.metric)
        if value is None:
            return None
        known = True
        if rule.direction(change.before, value) > 0:
            return False
    return True if known else None


def _ratio(finding: Finding, commit: str, machine: str, measured: Measured) -> float | None:
    candidate = measured.time(machine, commit, finding.candidate, finding.case)
    reference = measured.time(machine, commit, finding.reference, finding.case)
    if candidate is None or reference is None:
        return None
    try:
        return math.exp(hodges_lehmann(log_ratios(candidate, reference)))
    except ValueError:
        return None
