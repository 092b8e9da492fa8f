"""Which times are judged how, an epoch at a time, and what a new epoch means. Pure.

Few commits far apart (releases) are compared with their neighbours; many, each with sessions of its own, are
a history to search. Epochs are never joined: where one ends and another begins, levels differ for reasons
that are no commit's.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np

from scripts.tracker import detected
from scripts.tracker.detect import detect
from scripts.tracker.legs import Change, Source
from scripts.tracker.model import Case, Commit, Finding, Role, TimingMeasurement, Verdict
from scripts.tracker.policy import DetectionPolicy
from scripts.tracker.series import FloatArray, Panel
from scripts.tracker.steps import Judgement, pairs

HARMLESS = "changes of code that matter by policy.toml, but not in the GPU time of the commits after them"
_NOT_CONFIRMED = (Verdict.PENDING, Verdict.NO_VALID_DATA)


def is_history(commits: int, sessions: int, policy: DetectionPolicy) -> bool:
    """One session over many commits pairs them block by block: neighbours are then compared better."""
    return min(commits, sessions) >= policy.min_commits


def split_epochs(
    timings: list[TimingMeasurement], policy: DetectionPolicy
) -> tuple[list[TimingMeasurement], list[TimingMeasurement]]:
    """Those of epochs with enough commits and sessions to have a history, and the others."""
    commits: dict[str, set[str]] = defaultdict(set)
    sessions: dict[str, set[str]] = defaultdict(set)
    for t in timings:
        commits[t.epoch_key].add(t.commit)
        sessions[t.epoch_key].add(t.session)
    long = {e for e in commits if is_history(len(commits[e]), len(sessions[e]), policy)}
    return [t for t in timings if t.epoch_key in long], [t for t in timings if t.epoch_key not in long]


def judge_epochs(
    panels: list[Panel],
    roles: dict[str, Role],
    policy: DetectionPolicy,
    judged: Judgement,
    commits: list[Commit],
) -> Judgement:
    """``judged`` with what the histories among the panels show, each change beside the code that explains it,
    and with what a new epoch changed. Short panels are in ``judged`` already."""
    result = Judgement(counts=judged.counts.copy(), notes=list(judged.notes))
    histories = [p for p in panels if is_history(len(p.commits), len(set(p.session_of.tolist())), policy)]
    found = [f for panel in histories for f in detect(panel, roles, policy, result)]
    for older, newer in pairwise(panels):
        found += _new_epoch(older, newer, roles, policy)
    order = {c.commit: i for i, c in enumerate(commits)}
    findings = _joined(found, judged.findings, histories, policy, order, result.counts)
    result.findings = sorted(findings, key=lambda f: order[f.after.commit])
    result.counts += Counter()  # drops zeros
    return result


def _new_epoch(older: Panel, newer: Panel, roles: dict[str, Role], policy: DetectionPolicy) -> list[Finding]:
    """Where the numbers of a new epoch stand elsewhere than those of the one it follows."""
    if older.positions[-1] >= newer.positions[0] or older.target != newer.target:
        return []  # two machines side by side, not one after the other
    last = len(older.commits) - 1
    found = []
    old_level, new_level = older.by_commit(older.log_s), newer.by_commit(newer.log_s)
    for i, case in enumerate(newer.cases):
        for candidate, reference in pairs(roles):
            sides = [(older, old_level, slice(-policy.window_commits, None))]
            sides.append((newer, new_level, slice(policy.window_commits)))
            levels = [_levels(*side, case, (candidate, reference)) for side in sides]
            own = levels[1][0] - levels[0][0]
            ratio = own - (levels[1][1] - levels[0][1])
            if not math.isfinite(ratio) or max(abs(ratio), abs(own)) < math.log1p(policy.relevant_change):
                continue
            change = Change(i, candidate, reference, last, 0, (0, 0), (0, 0), Source.RATIO)
            found.append(detected.moved_epoch(older, newer, change, (ratio, own)))
    return found


def _levels(panel: Panel, level: FloatArray, span: slice, case: Case, pair: tuple[str, str]) -> list[float]:
    if case not in panel.cases or not set(pair) <= set(panel.variants):
        return [math.nan, math.nan]
    rows = [level[panel.cases.index(case), panel.variant(v), span] for v in pair]
    rows = [row[np.isfinite(row)] for row in rows]
    return [float(np.median(row)) if len(row) else math.nan for row in rows]


def _joined(
    found: list[Finding],
    others: list[Finding],
    panels: list[Panel],
    policy: DetectionPolicy,
    order: dict[str, int],
    counts: Counter[str],
) -> list[Finding]:
    """Where there is enough time, it decides: code explains a finding, or is a change that costs nothing."""
    code: dict[object, list[Finding]] = defaultdict(list)
    for f in others:
        if f.evidence == ("codegen",):
            code[_pair_of(f)].append(f)
    settled: set[str] = set()
    joined: list[Finding] = []
    for f in found:
        first, last = order[f.before.commit], order[f.after.commit]
        behind = [
            c
            for c in code[_pair_of(f)]
            if first < order[c.after.commit] <= last
            and f.verdict is not Verdict.UNSTABLE
            # What crept is no single change's doing, and a change of code on the way stays a finding.
            and not f.attribution
        ]
        if f.verdict not in _NOT_CONFIRMED:
            settled |= {c.id for c in behind}
        joined.append(_explained(f, behind[-1]) if behind else f)
    harmless = [f for of in code.values() for f in of if f.id not in settled and _is_timed(f, panels, policy)]
    harmless = [f for f in harmless if not any(_waits_for(f, other, order) for other in found)]
    counts[HARMLESS] += len(harmless)
    settled |= {f.id for f in harmless}
    return [f for f in others if f.id not in settled] + joined


def _explained(found: Finding, code: Finding) -> Finding:
    return replace(
        found,
        evidence=("codegen", "timing"),
        first_changed_stage=code.first_changed_stage,
        codegen_changes=code.codegen_changes,
        explanation=f"{found.explanation} {code.explanation}",
    )


def _is_timed(code: Finding, panels: list[Panel], policy: DetectionPolicy) -> bool:
    """Whether enough sessions of both variants stand on both sides of a change of code, in all its cases."""
    for panel in panels:
        column = {c.commit: i for i, c in enumerate(panel.commits)}
        cases = [
            i for i, c in enumerate(panel.cases) if replace(c, n_ctx=None) == replace(code.case, n_ctx=None)
        ]
        pair = (code.candidate, code.reference)
        is_asked = bool(cases) and code.target == panel.target and set(pair) <= set(panel.variants)
        if not is_asked or code.after.commit not in column:
            continue
        rows = [panel.log_s[i, panel.variant(v)] for i in cases for v in pair]
        newer = panel.commit_of >= column[code.after.commit]
        both_sides = [np.isfinite(row[side]).sum() for row in rows for side in (newer, ~newer)]
        return bool(min(both_sides) >= policy.sessions_to_confirm)
    return False


def _waits_for(code: Finding, found: Finding, order: dict[str, int]) -> bool:
    """Whether a finding that is not confirmed may still turn out to be this change of code."""
    inside = order[found.before.commit] < order[code.after.commit] <= order[found.after.commit]
    return _pair_of(code) == _pair_of(found) and inside and found.verdict in _NOT_CONFIRMED


def _pair_of(found: Finding) -> tuple[str, str, str, Case]:
    """What was compared, on which target: the code's case has no n_ctx."""
    return found.candidate, found.reference, found.target, replace(found.case, n_ctx=None)
