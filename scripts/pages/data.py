"""What the site's plots and selectors read: one file a page, as a script. Pure.

A browser reads no other file beside a page that was opened from disk, so the data are scripts, too.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from scripts.pages.context import NEWEST, Site
from scripts.pages.paths import finding_page, is_release
from scripts.pages.plot_lines import Line, epochs_of
from scripts.pages.sources import Sources
from scripts.tracker.groups import VERDICT_WORDS, FindingGroup
from scripts.tracker.measured import History
from scripts.tracker.model import Case, Commit, TimingMeasurement
from scripts.tracker.tflops import rows_of


def case_data(
    case: Case,
    lines: list[Line],
    timings: list[TimingMeasurement],
    groups: list[FindingGroup],
    history: History,
) -> dict[str, object]:
    place = {c.commit: i for i, c in enumerate(history.commits)}
    shown = {int(at) for line in lines for at in line.at}
    ends = {place[g.after.commit] for g in groups if g.after.commit in place}
    releases = [i for i, c in enumerate(history.commits) if is_release(c)]
    return {
        "labels": {i: plot_text(history.commits[i].label) for i in sorted(shown | ends | set(releases))},
        "releases": releases,
        "commits": len(history.commits),
        "epochs": [
            {"name": plot_text(n), "first": a, "last": b} for n, a, b in epochs_of(timings, history.commits)
        ],
        "lines": [
            {
                "name": plot_text(line.name),
                "candidate": line.candidate,
                "at": line.at.tolist(),
                "gap": np.flatnonzero(line.gap).tolist(),
                "value": _short(line.value.tolist()),
                "low": _short(line.low.tolist()),
                "high": _short(line.high.tolist()),
            }
            for line in lines
        ],
        "findings": _markers(case, lines, groups, place),
    }


def _markers(
    case: Case, lines: list[Line], groups: list[FindingGroup], place: dict[str, int]
) -> list[dict[str, object]]:
    """One a candidate, verdict and commit, at the ratio of the first reference of that verdict."""
    wanted = (case, replace(case, n_ctx=None))
    markers: list[dict[str, object]] = []
    for group in groups:
        at = place.get(group.after.commit)
        for verdict in group.verdicts if at is not None else ():
            found = [f for f in group.of(verdict) if f.case in wanted]
            if not found:
                continue
            height = next((f.ratio_after for f in found if f.ratio_after is not None), None)
            against = ", ".join(dict.fromkeys(f.reference for f in found))
            markers.append(
                {
                    "at": at,
                    "candidate": group.candidate,
                    "value": height if height is not None else _value_at(lines, group.candidate, at),
                    "verdict": verdict.value,
                    "text": plot_text(
                        f"{VERDICT_WORDS[verdict]} against {against}: "
                        f"{group.before.label} to {group.after.label}"
                    ),
                    "page": f"../{finding_page(group)}",
                }
            )
    return markers


def _value_at(lines: list[Line], candidate: str, at: int | None) -> float | None:
    for line in lines:
        hits = np.flatnonzero(line.at == at)
        if line.candidate == candidate and len(hits):
            return float(line.value[hits[0]])
    return None


def backward_data(site: Site) -> dict[str, object]:
    """The table of issue 4717 for any two commits. Offered: releases, ends of findings, and the newest."""
    sources, history = site.sources, site.history
    timed = {key[0] for key in sources.backward}
    named = {c.commit for c in site.named}
    ordered = [c for c in history.commits if c.commit in timed]
    newest = {c.commit for c in ordered[-NEWEST:]}
    offered = [c for c in ordered if c.commit in named or c.commit in newest]
    head_dims = sorted({key[3] for key in sources.backward})
    lengths = sorted({key[2] for key in sources.backward})
    issue = sources.issue
    return {
        "issue": {"head_dim": issue.head_dim, "n_ctx": issue.n_ctx, "tflops": issue.tflops},
        "device": issue.device,
        "commits": [[c.commit, c.label] for c in offered],
        "variants": list(history.variants),
        "n_ctx": lengths,
        "head_dims": head_dims,
        "tflops": {
            str(d): {c.commit: _speeds(sources, history, c, lengths, d) for c in offered} for d in head_dims
        },
    }


def _speeds(
    sources: Sources, history: History, commit: Commit, lengths: list[int], head_dim: int
) -> dict[str, list[float | None]]:
    variants, of = list(history.variants), [(commit.commit, commit.label)]
    rows = rows_of(sources.backward, history.flops, of, variants, lengths, head_dim)
    return {row.name: _short(row.tflops) for row in rows}


def plot_text(text: str) -> str:
    """As the plotting library shows it: it reads a few tags and entities, and links, in any text."""
    return html.escape(text, quote=False)


def _short(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else float(f"{value:.5g}") for value in values]


def script(data: object) -> str:
    return f"var atomwatch = {json.dumps(data, allow_nan=False, separators=(',', ':'))};\n"
