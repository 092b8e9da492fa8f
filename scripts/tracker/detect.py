"""Findings of GPU time over the history of consecutive commits. Pure.

`search` says where the level of which series changed, `legs` whose doing it is, `detected` puts it into
words; here it is decided what of it is one change, what is confirmed, and what is told.
"""

from __future__ import annotations

import math

import numpy as np

from scripts.tracker import detected
from scripts.tracker.changepoints import Shift, chance, least_size, standard_error
from scripts.tracker.changes import changes_of
from scripts.tracker.detected import Noise, Seen
from scripts.tracker.legs import Change, Source, legs_of, verdict_of
from scripts.tracker.model import Finding, Role, Verdict
from scripts.tracker.policy import DetectionPolicy
from scripts.tracker.search import Search, Track, search_panel
from scripts.tracker.series import UNKNOWN_CODE, FloatArray, Panel, middle
from scripts.tracker.steps import Judgement
from scripts.tracker.unstable import turns

SERIES = "series of consecutive commits searched for changes of level"
NOT_CONFIRMED = "suspicions that another session of the same commit did not confirm"
ENDED = (
    "series that ended: not asked for any more (if only the name changed, scripts/renames.toml joins them)"
)
SHADOWS = "changes of level that only taking out spikes showed: the plain medians do not"
SAME_CODE = "suspicions about commits whose machine code is their parent's: not their doing"
_WANDER = 3  # neighbours that say no more than one, where a series wanders
_LEAST_CREPT = 2 * _WANDER  # values at either end before one level is held against the other
_FEW_POINTS = 6  # values after a change that a disagreement among sessions can still undo


def detect(panel: Panel, roles: dict[str, Role], policy: DetectionPolicy, judged: Judgement) -> list[Finding]:
    """Everything that happened in one epoch, by commit. Counts and notes go to ``judged``."""
    search = search_panel(panel, roles, policy)
    judged.counts[SERIES] += len(search.tracks)
    findings = [f for track in search.tracks if track.reference for f in _of_pair(search, track)]
    judged.counts.update(search.counts)
    judged.notes += _least_in_words(search) + _canaries_in_words(panel)
    column = {c.commit: i for i, c in enumerate(panel.commits)}
    return sorted(findings, key=lambda f: column[f.after.commit])


def _of_pair(search: Search, track: Track) -> list[Finding]:
    """Findings of one candidate against one reference, in one case."""
    unstable = _joined(search.unstable[search.tracks[track]])
    findings = [f for f in (_unstable(search, track, span) for span in unstable) if f is not None]
    seen = [
        s for s in changes_of(search, track) if not any(lo <= s.change.at < hi + 1 for lo, hi in unstable)
    ]
    seen += [] if unstable else _drift(search, track, seen)
    for item in seen:
        finding = _judged(search, item)
        if finding is not None:
            findings.append(finding)
    return findings + _lost(search, track)


def _judged(search: Search, seen: Seen) -> Finding | None:
    panel, change = search.panel, seen.change
    row = search.row(Track(change.case, change.candidate, change.reference))
    plain = middle(row[slice(*change.new)]) - middle(row[slice(*change.old)])
    if change.source is Source.RATIO and not _agree(plain, seen.shift.size):
        search.counts[SHADOWS] += 1
        return None
    legs = legs_of(panel, search.level, change, search.roles)
    verdict, why = verdict_of(legs, change)
    sessions, against = (len(panel.commits), False) if seen.is_drift else _support(search, change)
    if seen.is_suspicion and verdict is Verdict.ENVIRONMENT:
        search.counts[SAME_CODE] += 1
        return None
    if against:
        search.counts[NOT_CONFIRMED] += 1
        return None
    if sessions < search.policy.sessions_to_confirm and verdict is not Verdict.ENVIRONMENT:
        verdict = Verdict.PENDING
        why = f"{detected.count(sessions, 'session')} so far: to be repeated before anybody is told. {why}"
    return detected.finding(panel, seen, legs, verdict, why, _noise(search, change), row)


def _agree(one: float, other: float) -> bool:
    """Whether two estimates of a change are of one direction, and of sizes that may be the same."""
    return one * other > 0 and abs(one) > abs(other) / 2


def _support(search: Search, change: Change) -> tuple[int, bool]:
    """How many sessions stand at the new level; and whether as many of the first commit's do not.

    Repeats within a session were one value already.
    """
    panel = search.panel
    first, at, stop = np.searchsorted(panel.commit_of, [change.old[0], change.at, change.new[1]])
    values = _of_points(search, change)[first:stop]
    old, new = values[: at - first], values[at - first :]
    before, after = middle(old[panel.commit_of[first:at] < change.old[1]]), middle(new)
    if math.isnan(before) or math.isnan(after):
        return 0, False
    there = np.abs(new - after) < np.abs(new - before)
    sessions = len(np.unique(panel.session_of[at:stop][there]))
    of_first = panel.commit_of[at:stop] == change.at
    repeated = len(np.unique(panel.session_of[at:stop][of_first])) > 1
    back = np.abs(new - before) < search.policy.suspect_z * _noise(search, change).sigma
    # Few values: a commit measured twice, once here and once there, has proved nothing.
    is_against = repeated and len(new) < _FEW_POINTS and (back & of_first).sum() * 2 >= of_first.sum()
    return sessions, bool(is_against)


def _of_points(search: Search, change: Change) -> FloatArray:
    panel, log_s = search.panel, search.panel.log_s[change.case]
    candidate, reference = (log_s[panel.variant(v)] for v in (change.candidate, change.reference))
    over = {
        Source.RATIO: lambda: candidate - reference,
        Source.OWN: lambda: candidate - panel.canary_level()[change.case],
        Source.ALONE: lambda: candidate,
        Source.MACHINE: lambda: panel.canary_level()[change.case],
    }
    return np.asarray(over[change.source]())


def _noise(search: Search, change: Change) -> Noise:
    row = search.tracks[Track(change.case, change.candidate, change.reference)]
    sigma = float(search.scan.sigma[row])
    enough = search.policy.sessions_to_confirm
    least = sigma * least_size(search.scan.accept_p, enough, search.policy.window_commits)
    return Noise(sigma, max(math.expm1(least), search.policy.relevant_change))


def _drift(search: Search, track: Track, seen: list[Seen]) -> list[Seen]:
    """The newest level against the first since the last change that is told: what crept away in steps too
    small to see."""
    row = search.row(track)
    since = max((s.change.at for s in seen if s.change.source is Source.RATIO), default=0)
    valid = np.flatnonzero(np.isfinite(row))
    valid = valid[valid >= since]
    window = min(search.policy.window_commits, len(valid) // 2)
    if window < _LEAST_CREPT:
        return []
    old, new = valid[:window], valid[-window:]
    size = middle(row[new]) - middle(row[old])
    sigma = float(search.scan.sigma[search.tracks[track]])
    p = chance(size, sigma, len(new) // _WANDER, len(old) // _WANDER)
    if abs(math.expm1(size)) < search.policy.relevant_change or p > search.scan.accept_p:
        return []
    first, last = int(valid[0]), int(valid[-1])
    spans = (first, int(old[-1]) + 1), (int(new[0]), last + 1)
    change = Change(track.case, track.candidate, track.reference, first, last, *spans, Source.RATIO)
    shift = Shift(first, last, size, standard_error(sigma, len(old), len(new)), p, len(new))
    return [Seen(change, shift, is_drift=True)]


def _least_in_words(search: Search) -> list[str]:
    """What could not have been seen: the smallest change that so many sessions would show, by series."""
    enough, window = search.policy.sessions_to_confirm, search.policy.window_commits
    rows = [row for track, row in search.tracks.items() if track.reference]
    if not rows:
        return []
    soon, late = (
        np.expm1(search.scan.sigma[rows] * least_size(search.scan.accept_p, n, window))
        for n in (enough, window)
    )
    floor = search.policy.relevant_change
    low, middle_one, high = (max(float(np.quantile(soon, q)), floor) for q in (0.0, 0.5, 1.0))
    return [
        f"{search.panel.epoch}: a ratio must change by {low:.1%} to {high:.1%}, as its series spreads "
        f"(half of the series: up to {middle_one:.1%}), to be seen after {enough} sessions, and by "
        f"{max(float(np.median(late)), floor):.1%} in the middle one after {window}"
    ]


def _canaries_in_words(panel: Panel) -> list[str]:
    """That the newest sessions of a case have no canary, where earlier ones had."""
    if not panel.canaries:
        return []  # said where the results are read
    level = panel.by_commit(panel.canary_level())
    since: dict[str, int] = {}
    for row in level:
        known = np.flatnonzero(np.isfinite(row))
        if not len(known) or known[-1] + 1 < len(row):
            label = panel.commits[int(known[-1]) + 1 if len(known) else 0].label
            since[label] = since.get(label, 0) + 1
    return [
        f"{panel.epoch}: no canary has a valid time since {label} in {detected.count(cases, 'case')}: from "
        "there on machine and compiler cannot be told apart"
        for label, cases in since.items()
    ]


def _joined(windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, stop in windows:
        if joined and joined[-1][1] >= start:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def _unstable(search: Search, track: Track, span: tuple[int, int]) -> Finding | None:
    """Two values at random. Turns at commits that changed the code are no proof of it."""
    row = search.rows[search.tracks[track]]
    places = span[0] + turns(row[slice(*span)])
    rows = [search.panel.variant(v) for v in (track.candidate, track.reference)]
    codes = search.panel.codes[track.case, rows]
    changed = (codes[:, places - 1] != codes[:, places]).any(axis=0)
    if (~changed).sum() * 2 < len(places):
        return None
    known = bool((codes[:, slice(*span)] != UNKNOWN_CODE).all())
    change = Change(
        track.case, track.candidate, track.reference, span[0], span[1] - 1, span, span, Source.RATIO
    )
    return detected.unstable(search.panel, change, row, len(places), known, _noise(search, change))


def _lost(search: Search, track: Track) -> list[Finding]:
    """A pair that was timed and has no valid value at the newest commits: unknown, and never "unchanged"."""
    row = search.rows[search.tracks[track]]
    valid = np.flatnonzero(np.isfinite(row))
    if not len(valid) or valid[-1] == len(row) - 1:
        return []
    rows = [search.panel.variant(v) for v in (track.candidate, track.reference)]
    if not search.panel.listed[track.case, rows, -1].all():
        search.counts[ENDED] += 1
        return []
    last, n = int(valid[-1]), len(row)
    span = (last, last + 1)
    change = Change(
        track.case, track.candidate, track.reference, last, last + 1, span, (last + 1, n), Source.RATIO
    )
    return [detected.lost(search.panel, change, search.level)]
