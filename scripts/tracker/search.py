"""Every series of a panel, searched. Pure.

Three kinds a case: the ratio of each candidate to each reference, each candidate's own time over the canaries
(what a ratio cannot see: everything slower at once), and the canaries themselves (the machine). Where some
sessions lack the canaries, each candidate's own time as it was, too: else everything slower at once would be
silent there.
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
    """One series: the ratio of a pair in a case. Without ``reference``: the candidate's own time, over the
    canaries or ``alone``. Without ``candidate``, too: the canaries."""

    case: int
    candidate: str
    reference: str
    alone: bool = False


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
    cases = list(range(len(panel.cases)))
    over = panel.canary_level()
    bare = [i for i in cases if np.isnan(over[i]).any()]
    tracks: list[Track] = []
    blocks = [np.empty((0, len(panel.commits)))]
    relevant: list[float] = []

    def add(own: list[Track], values: list[FloatArray], least: float) -> None:
        tracks.extend(own)
        blocks.extend(panel.by_commit(v) for v in values)
        relevant.extend([least] * len(own))

    ratios = [Track(i, c, r) for c, r in compared for i in cases]
    add(ratios, [_of(panel, c) - _of(panel, r) for c, r in compared], policy.relevant_change)
    if panel.canaries:
        own = [Track(i, c, "") for c in candidates for i in cases]
        add(own, [_of(panel, c) - over for c in candidates], policy.relevant_change)
        add([Track(i, "", "") for i in cases], [over], policy.environment_change)
    # Without canaries, sessions of one machine differ by more on their own.
    alone = [Track(i, c, "", alone=True) for c in candidates for i in bare]
    add(alone, [_of(panel, c)[bare] for c in candidates], policy.environment_change)
    return tracks, np.concatenate(blocks), np.log1p(np.array(relevant))


def _of(panel: Panel, variant: str) -> FloatArray:
    return panel.log_s[:, panel.variant(variant)]
