"""Findings as people read them: one group a candidate and pair of commits, worst first."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace

from scripts.tracker.model import Case, Commit, Decision, Finding, Verdict

# What a reader must see first.
SEVERITY = (
    Verdict.REGRESSION,
    Verdict.NO_VALID_DATA,
    Verdict.PENDING,
    Verdict.UNSTABLE,
    Verdict.COMPILER_WIDE,
    Verdict.REFERENCE_MOVED,
    Verdict.ENVIRONMENT,
    Verdict.IMPROVEMENT,
    Verdict.NO_CHANGE,
)
VERDICT_WORDS = {
    Verdict.REGRESSION: "likely regression",
    Verdict.IMPROVEMENT: "likely improvement",
    Verdict.REFERENCE_MOVED: "reference moved",
    Verdict.COMPILER_WIDE: "compiler-wide change",
    Verdict.ENVIRONMENT: "environment changed",
    Verdict.UNSTABLE: "unstable",
    Verdict.PENDING: "waiting for confirmation",
    Verdict.NO_VALID_DATA: "no valid data",
    Verdict.NO_CHANGE: "no change",
}

CONFIRMED = {
    Decision.DIFFERENT: "confirmed",
    Decision.SAME: "not reproduced",
    Decision.UNKNOWN: "neither confirmed nor refuted",
}


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One metric of one variant, over the cases of a group. ``values``: like "32 -> 8"."""

    variant: str
    metric: str
    meaning: str
    values: str


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """All findings of one candidate and target between the same two commits."""

    before: Commit
    after: Commit
    candidate: str
    target: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The one to be read first."""
        return min((f.verdict for f in self.findings), key=SEVERITY.index)

    @property
    def slug(self) -> str:
        """A file name for it, its own even where labels are long or differ in odd characters only."""
        parts = (self.before.label, self.after.label, self.candidate, self.target.replace(":", "-"))
        safe = ["".join(c if c.isascii() and (c.isalnum() or c in ".-_") else "-" for c in p) for p in parts]
        name = "_".join(part[:40] for part in safe)
        if tuple(part[:40] for part in safe) == parts:
            return name
        return f"{name}_{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:8]}"

    def changes_of(self, verdict: Verdict) -> list[ChangeRow]:
        """What is behind a verdict: GPU time, then code, the candidate's first, in order of weight.

        Only what explains it: of a compiler-wide change the candidate's share, of a moved reference that
        reference's, and else no change of a reference that the candidate shows as well.
        """
        rows: dict[tuple[str, str, str], dict[Case, str]] = {}
        for finding in self.of(verdict):
            for c in finding.codegen_changes:
                values = f"{c.before:g} -> {c.after:g}"
                # Code does not depend on n_ctx: the lengths that were timed share it.
                case = replace(finding.case, n_ctx=None)
                rows.setdefault((c.variant, c.metric, c.meaning), {})[case] = values
        cases = {replace(f.case, n_ctx=None) for f in self.of(verdict)}
        times = [row for r in self.references_of(verdict) if (row := self._time_row(verdict, r))]
        if verdict is Verdict.COMPILER_WIDE:
            del times[1:]  # of the candidate alone: the same against every reference
        own = {(metric, meaning) for variant, metric, meaning in rows if variant == self.candidate}
        ordered = sorted(
            ((key, values) for key, values in rows.items() if self._explains(key, verdict, own)),
            key=lambda row: row[0][0] != self.candidate,
        )
        return times + [ChangeRow(*key, _side_by_side(values, cases)) for key, values in ordered]

    def _explains(self, key: tuple[str, str, str], verdict: Verdict, own: set[tuple[str, str]]) -> bool:
        is_candidate = key[0] == self.candidate
        if verdict is Verdict.COMPILER_WIDE:
            return is_candidate
        if verdict is Verdict.REFERENCE_MOVED:
            return not is_candidate
        return is_candidate or key[1:] not in own

    def _time_row(self, verdict: Verdict, reference: str) -> ChangeRow | None:
        """GPU time over one reference, at the case where it moved most; None if none was timed."""
        timed = [f for f in self.of(verdict) if f.reference == reference and f.change is not None]
        if not timed:
            return None
        is_wide = verdict is Verdict.COMPILER_WIDE
        worst = max(timed, key=lambda f: abs((f.candidate_change if is_wide else f.change) or 0.0))
        if is_wide and worst.candidate_change is not None:
            where = f"head_dim {worst.case.head_dim}, n_ctx {worst.case.n_ctx}, of {len(timed)}"
            values = f"{worst.candidate_change:+.1%} on its own ({where})"
            return ChangeRow(self.candidate, "GPU time", "GPU time of every variant", values)
        low, high = worst.interval or (0.0, 0.0)
        alone = f"alone {worst.candidate_change:+.1%}; " if worst.candidate_change is not None else ""
        values = (
            f"{worst.ratio_before:.3f} -> {worst.ratio_after:.3f} ({worst.change:+.1%}, 95 % {low:+.1%} to "
            f"{high:+.1%}; {alone}head_dim {worst.case.head_dim}, n_ctx {worst.case.n_ctx}, of {len(timed)})"
        )
        return ChangeRow(self.candidate, f"GPU time over {reference}", "GPU time", values)

    def confirmations_of(self, verdict: Verdict) -> list[str]:
        """What fresh sessions said: a line for each answer, with the cases that were asked."""
        said: dict[str, list[str]] = defaultdict(list)
        for finding in self.of(verdict):
            if (answer := finding.confirmation) is not None:
                whose = "alone" if answer.of == "time" else f"over {finding.reference}"
                words = f"{CONFIRMED[answer.decision]} in {answer.sessions} fresh sessions on {answer.gpu}"
                where = f"head_dim {finding.case.head_dim}, n_ctx {finding.case.n_ctx or 'of the policy'}"
                said[f"{words}: {whose}"].append(f"{answer.asked.change:+.1%} ({where})")
        return [f"{words} {', '.join(effects)}" for words, effects in said.items()]

    def of(self, verdict: Verdict) -> list[Finding]:
        return [f for f in self.findings if f.verdict is verdict]

    def excerpts_of(self, verdict: Verdict) -> list[tuple[str, str]]:
        """(what it shows, the difference on dQ's path) of whichever variant moved; equal ones once."""
        cases: dict[tuple[str, str, str], set[Case]] = {}
        for finding in self.of(verdict):
            if finding.excerpt and finding.first_changed_stage:
                key = (finding.subject, finding.first_changed_stage, finding.excerpt)
                cases.setdefault(key, set()).add(replace(finding.case, n_ctx=None))
        return [
            (f"{subject} in {stage} ({name_cases(sorted(found))})", excerpt)
            for (subject, stage, excerpt), found in cases.items()
        ]

    def cases_of(self, verdict: Verdict) -> str:
        # A pair that was timed has a length, one whose code alone is known has none.
        cases = {f.case for f in self.of(verdict)}
        return name_cases(sorted(cases, key=lambda c: (c.head_dim, c.causal, c.dtype, c.n_ctx or 0)))

    def attributions_of(self, verdict: Verdict) -> list[Finding]:
        """A finding for each different list of suspects, the one with most of the group first."""
        by_suspects: dict[tuple[object, str], list[Finding]] = {}
        for finding in self.of(verdict):
            if finding.attribution:
                by_suspects.setdefault((finding.suspects, finding.attribution), []).append(finding)
        return [members[0] for members in sorted(by_suspects.values(), key=len, reverse=True)]

    def references_of(self, verdict: Verdict) -> list[str]:
        return list(dict.fromkeys(f.reference for f in self.of(verdict)))

    @property
    def verdicts(self) -> list[Verdict]:
        return [v for v in SEVERITY if self.of(v)]


def _side_by_side(values: dict[Case, str], cases: set[Case]) -> str:
    """One value if all cases share it; else each with the cases that have it."""
    if len(set(values.values())) == 1 and set(values) == cases:
        return next(iter(values.values()))
    by_value: dict[str, list[Case]] = {}
    for case, value in sorted(values.items()):
        by_value.setdefault(value, []).append(case)
    if _differ_by_head_dim(cases):
        names = {v: f"head_dim {', '.join(str(c.head_dim) for c in found)}" for v, found in by_value.items()}
    else:
        names = {value: name_cases(found) for value, found in by_value.items()}
    return "; ".join(f"{value} ({names[value]})" for value in by_value)


def _differ_by_head_dim(cases: Collection[Case]) -> bool:
    """Whether the cases are the same but for head_dim, so that naming it is enough."""
    return len({(c.causal, c.dtype, c.n_ctx, c.batch, c.heads) for c in cases}) == 1


def name_cases(cases: list[Case]) -> str:
    """Cases in few words: what all share is said once."""
    if len({(c.causal, c.dtype) for c in cases}) > 1 or len(cases) == 1:
        return "; ".join(map(str, cases))
    head_dims = ", ".join(map(str, sorted({c.head_dim for c in cases})))
    lengths = ", ".join(map(str, sorted({c.n_ctx for c in cases if c.n_ctx is not None})))
    shared = f"{'causal' if cases[0].causal else 'full'}, {cases[0].dtype}"
    return f"head_dim {head_dims}, {shared}" + (f", n_ctx {lengths}" if lengths else "")


def group_findings(findings: list[Finding]) -> list[FindingGroup]:
    """Groups in the order of the findings' commits."""
    by_key: dict[tuple[Commit, Commit, str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        key = (finding.before, finding.after, finding.candidate, finding.target)
        by_key[key].append(finding)
    return [FindingGroup(*key, tuple(members)) for key, members in by_key.items()]
