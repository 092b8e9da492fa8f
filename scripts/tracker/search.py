"""Every series of a panel, searched. Pure.

Three kinds a case: the ratio of each candidate to each reference, each candidate's own time over the canaries
(what a ratio cannot see: everything slower at once), and the canaries themselves (the machine).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from scripts.tracker.changepoints import Scan, scan
from scripts.tracker.model import Role
from scripts.tracker.policy import DetectionPolicy
from scripts.tracker.series import FloatArray, Panel
from scripts.tracker.steps import pairs
from scripts.tracker.unstable import unstable_windows


@dataclass(frozen=True, slots=True)
class Track:
    """One series: the ratio of a pair in a case. Without ``reference``: the candidate's own time. Without
    ``candidate``, too: the canaries."""

    case: int
    candidate: str
    reference: str


@dataclass(frozen=True, slots=True)
class Search:
    """A panel and what was found in it.

    ``tracks``: to rows. ``rows``: logarithms by commit. ``level``: of every variant, [case, variant, commit].
    ``unstable``: of each row, the spans of commits in which it takes one of two values at random.
    """

    panel: Panel
    roles: dict[str, Role]
    policy: DetectionPolicy
    tracks: dict[Track, int]
    rows: FloatArray
    level: FloatArray
    scan: Scan
    unstable: list[list[tuple[int, int]]]
    counts: Counter[str] = field(default_factory=Counter)

    def row(self, track: Track) -> FloatArray:
        return np.asarray(self.rows[self.tracks[track]])


def search_panel(panel: Panel, roles: dict[str, Role], policy: DetectionPolicy) -> Search:
    """Look for changes of level in every series of an epoch."""
    tracks, rows, relevant = _tracks(panel, roles, policy)
    return Search(
        panel=panel,
        roles=roles,
        policy=policy,
        tracks={track: i for i, track in enumerate(tracks)},
        rows=rows,
        level=panel.by_commit(panel.log_s),
        scan=scan(rows, relevant, policy),
        unstable=unstable_windows(rows, relevant),
    )


def _tracks(
    panel: Panel, roles: dict[str, Role], policy: DetectionPolicy
) -> tuple[list[Track], FloatArray, FloatArray]:
    """Every series, its values by commit, and the smallest change in it that matters."""
    compared = [p for p in pairs(roles) if set(p) <= set(panel.variants)]
    candidates = list(dict.fromkeys(candidate for candidate, _ in compared))
    cases = range(len(panel.cases))
    tracks = [Track(i, c, r) for c, r in compared for i in cases]
    tracks += [Track(i, c, "") for c in candidates for i in cases]
    blocks = [panel.by_commit(_of(panel, c) - _of(panel, r)) for c, r in compared]
    relevant = [policy.relevant_change] * (len(compared) * len(cases))
    own = panel.canary_level() if panel.canaries else 0.0
    blocks += [panel.by_commit(_of(panel, c) - own) for c in candidates]
    # Without canaries, sessions of one machine differ by more on their own.
    least_own = policy.relevant_change if panel.canaries else policy.environment_change
    relevant += [least_own] * (len(candidates) * len(cases))
    if panel.canaries:
        blocks.append(panel.by_commit(panel.canary_level()))
        tracks += [Track(i, "", "") for i in cases]
        relevant += [policy.environment_change] * len(cases)
    rows = np.concatenate(blocks) if blocks else np.empty((0, len(panel.commits)))
    return tracks, rows, np.log1p(np.array(relevant))


def _of(panel: Panel, variant: str) -> FloatArray:
    return panel.log_s[:, panel.variant(variant)]
