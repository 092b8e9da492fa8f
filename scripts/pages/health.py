"""How each candidate stands against each reference now: which findings are still open. Pure.

A finding is open until the ratio has come back to the near side of the middle between its two values; one
without a ratio (code alone, the whole compiler), until a later finding of the same pair goes the other way.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from scripts.pages.plot_lines import Line
from scripts.tracker.groups import SEVERITY
from scripts.tracker.model import Case, Commit, Decision, Finding, Verdict

# {(candidate, reference, case): newest ratio}
NewestRatios = dict[tuple[str, str, Case], float]


@dataclass(frozen=True, slots=True)
class Standing:
    """One candidate against one reference, over all cases.

    ``finding``: the open one to be read first, None if none is open. ``open_cases``: in how many of ``cases``
    one of that verdict is open. ``ratios``: the newest of each case; empty without GPU time.
    """

    candidate: str
    reference: str
    finding: Finding | None
    open_cases: int
    cases: int
    ratios: dict[Case, float]

    @property
    def verdict(self) -> Verdict:
        return self.finding.verdict if self.finding else Verdict.NO_CHANGE

    @property
    def worst(self) -> tuple[Case, float] | None:
        """The case in which the candidate is slowest against the reference."""
        return max(self.ratios.items(), key=lambda item: item[1], default=None)


def newest_ratios(case: Case, lines: Iterable[Line]) -> NewestRatios:
    """The ratio at the newest commit that has one. Of several epochs, the one with the newest commit."""
    found: dict[tuple[str, str, Case], tuple[int, float]] = {}
    for line in lines:
        if line.candidate is not None and len(line.at):
            key = (line.candidate, line.name, case)
            here = (int(line.at[-1]), float(line.value[-1]))
            found[key] = max(found.get(key, (-1, 0.0)), here)
    return {key: ratio for key, (_, ratio) in found.items()}


def standings(
    pairs: Iterable[tuple[str, str]], findings: list[Finding], newest: NewestRatios, commits: list[Commit]
) -> list[Standing]:
    """Worst first: by verdict, then by the slowest case."""
    order = {c.commit: i for i, c in enumerate(commits)}
    by_pair: dict[tuple[str, str], dict[Case, list[Finding]]] = defaultdict(lambda: defaultdict(list))
    for finding in sorted(findings, key=lambda f: order.get(f.after.commit, -1)):
        by_pair[finding.candidate, finding.reference][finding.case].append(finding)
    found = []
    for candidate, reference in pairs:
        ratios = {case: r for (c, of, case), r in newest.items() if (c, of) == (candidate, reference)}
        cases = by_pair[candidate, reference]
        still = [
            finding
            for case, of_case in cases.items()
            for i, finding in enumerate(of_case)
            if _is_open(finding, of_case[i + 1 :], ratios.get(case))
        ]
        worst = min((f.verdict for f in still), key=SEVERITY.index, default=None)
        members = [f for f in still if f.verdict is worst]
        first = max(members, key=lambda f: (is_confirmed(f), abs(f.change or 0.0)), default=None)
        open_cases = len({f.case for f in members})
        found.append(Standing(candidate, reference, first, open_cases, len(set(ratios) | set(cases)), ratios))
    return sorted(found, key=lambda s: (SEVERITY.index(s.verdict), -(s.worst[1] if s.worst else 0.0)))


def is_confirmed(finding: Finding) -> bool:
    """Whether fresh sessions saw it too."""
    return finding.confirmation is not None and finding.confirmation.decision is Decision.DIFFERENT


def _is_open(finding: Finding, later: list[Finding], newest: float | None) -> bool:
    before, after = finding.ratio_before, finding.ratio_after
    # Of the whole compiler, the ratio says nothing: both sides moved.
    if newest and before and after and finding.verdict is not Verdict.COMPILER_WIDE:
        middle = math.sqrt(before * after)
        return (newest > middle) == (after > before)
    direction = _direction(finding)
    return not any(_direction(other) == -direction != 0 for other in later)


def _direction(finding: Finding) -> int:
    """1: the candidate became worse, -1: better, 0: the finding does not say."""
    if finding.verdict is Verdict.REGRESSION:
        return 1
    if finding.verdict is Verdict.IMPROVEMENT:
        return -1
    moved = finding.candidate_change or 0.0
    return (moved > 0) - (moved < 0) if finding.verdict is Verdict.COMPILER_WIDE else 0
