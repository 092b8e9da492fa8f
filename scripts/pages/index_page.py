"""The overview: is each candidate healthy, and since when. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.pages.context import Site
from scripts.pages.health import NewestRatios, Standing, is_confirmed, standings
from scripts.pages.paths import case_page, code_page, finding_page
from scripts.tracker.groups import group_findings
from scripts.tracker.model import Case, Commit, MeasurementStatus
from scripts.tracker.steps import pairs


@dataclass(frozen=True, slots=True)
class CandidateHealth:
    """A candidate in one sentence. ``worst``: of all its standings, the one to be read first. ``against``:
    the references of that verdict. ``low``, ``high``: newest ratios over all references and cases, None
    without GPU time. ``first``: the first commit of the history at which it was measured and ok."""

    worst: Standing
    against: tuple[str, ...]
    low: float | None
    high: float | None
    confirmed: bool
    first: Commit | None


def healths(of: list[Standing], site: Site) -> list[CandidateHealth]:
    """One a candidate, in the order of ``of``: worst first."""
    found = []
    for candidate in dict.fromkeys(s.candidate for s in of):
        own = [s for s in of if s.candidate == candidate]
        same = [s for s in own if s.verdict is own[0].verdict]
        ratios = [ratio for s in own for ratio in s.ratios.values()]
        found.append(
            CandidateHealth(
                worst=own[0],
                against=tuple(s.reference for s in same),
                low=min(ratios, default=None),
                high=max(ratios, default=None),
                confirmed=any(s.finding is not None and is_confirmed(s.finding) for s in same),
                first=_first_ok(candidate, site),
            )
        )
    return found


def _first_ok(variant: str, site: Site) -> Commit | None:
    ok = MeasurementStatus.OK
    return next(
        (
            c
            for c in site.history.commits
            for m in (*site.compiled.get(c.commit, ()), *site.timed.get(c.commit, ()))
            if m.variant == variant and m.status is ok
        ),
        None,
    )


def index_text(site: Site, newest: NewestRatios, timed: list[Case]) -> str:
    history, judgement = site.history, site.judgement
    of_pairs = pairs({name: fact.role for name, fact in history.variants.items()})
    stand = standings(of_pairs, judgement.findings, newest, history.commits)
    measured = site.compiled.keys() | site.timed.keys()
    pages = {id(f): finding_page(g) for g in site.groups for f in g.findings}
    return site.page(
        "index.html",
        "",
        healths=healths(stand, site),
        standings=stand,
        page_of=lambda found: pages[id(found)],
        is_confirmed=is_confirmed,
        newest=next((c for c in reversed(history.commits) if c.commit in measured), None),
        counted=(len(history.commits), len(measured), len(site.timed)),
        groups=site.groups,
        expected=[
            (group, sorted({reason for finding, reason in judgement.expected if finding in group.findings}))
            for group in group_findings([finding for finding, _ in judgement.expected])
        ],
        counts=sorted(judgement.counts.items()),
        timed=[(case, case_page(case)) for case in timed],
        code=[
            (target, case, code_page(target, case))
            for target, case in sorted({(m.target, m.case) for m in history.measurements})
        ],
        facts=history.variants,
        named=site.named[::-1],
        not_applicable=len(site.sources.not_applicable),
        has_backward=bool(site.sources.backward),
        issue=site.sources.issue,
        failures=[
            (target, history.label(sha), failure.reason)
            for target, of in history.failures.items()
            for sha, failure in of.items()
        ],
        problems=[str(problem) for problem in history.problems],
        notes=[*history.notes, *judgement.notes],
    )
