"""The page of a commit and the list of all: what was tried and what came of it, and what was never tried.
Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from scripts.pages.context import Site
from scripts.pages.paths import case_page
from scripts.tracker.model import Case, Commit, MeasurementStatus


@dataclass(frozen=True, slots=True)
class CommitState:
    """``code``, ``time``: in words; each way to lack a measurement has its own. ``findings``: how many groups
    of findings end here. ``subject``: other people's words, empty where Triton's history is not at hand."""

    commit: Commit
    code: str
    time: str
    findings: int
    subject: str


def commit_state(site: Site, commit: Commit) -> CommitState:
    sha = commit.commit
    statuses = Counter(m.status for m in site.compiled.get(sha, ()))
    code = ", ".join(f"{statuses[s]} {s.value}" for s in MeasurementStatus if statuses[s])
    failures = [f"failed for {target}: {failure.reason}" for target, failure in site.failed.get(sha, ())]
    again = ["it is tried again"] if any(f.transient for _, f in site.failed.get(sha, ())) else []
    cases = len({t.case for t in site.timed.get(sha, ()) if t.samples_s})
    landed = site.sources.landed.get(sha)
    return CommitState(
        commit=commit,
        code="; ".join(filter(None, (code, *failures, *again))) or "not measured",
        time=f"{cases} cases" if cases else "not timed",
        findings=site.ended[sha],
        subject=landed.subject if landed else "",
    )


def commit_list(site: Site) -> str:
    """Every commit of the history, newest first, and those that need no measurement."""
    states = [commit_state(site, commit) for commit in reversed(site.history.commits)]
    return site.page(
        "commits.html",
        "",
        states=states,
        not_applicable=sorted(site.sources.not_applicable.items()),
        landed=site.sources.landed,
    )


def commit_text(site: Site, commit: Commit) -> str:
    speeds: dict[str, dict[Case, float]] = {}
    for t in site.timed.get(commit.commit, ()):
        flops = site.history.flops.get((t.case.n_ctx or 0, t.case.head_dim, t.case.causal))
        if t.samples_s and flops:
            speeds.setdefault(t.variant, {})[t.case] = flops / float(np.median(t.samples_s)) / 1e12
    cases = sorted({c for of in speeds.values() for c in of}, key=lambda c: (c.head_dim, c.n_ctx or 0))
    ok = [m for m in site.compiled.get(commit.commit, ()) if m.status is MeasurementStatus.OK and m.evidence]
    others = [m for m in site.compiled.get(commit.commit, ()) if m not in ok]
    return site.page(
        "commit.html",
        "../",
        commit=commit,
        state=commit_state(site, commit),
        came=[g for g in site.groups if g.after == commit],
        went=[g for g in site.groups if g.before == commit],
        compiled=sorted(Counter(m.target for m in ok).items()),
        measured=sorted(others, key=lambda m: (m.target, m.case)),
        failures=site.failed.get(commit.commit, ()),
        cases=[(case, f"../{case_page(case)}") for case in cases],
        speeds=[(variant, [of.get(case) for case in cases]) for variant, of in speeds.items()],
    )
