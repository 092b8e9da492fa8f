"""Findings as people read them: one group a candidate and pair of commits, worst first."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from scripts.tracker.model import CodegenChange, Commit, Finding, Verdict

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
        """A file name for it."""
        parts = (self.before.label, self.after.label, self.candidate, self.target.replace(":", "-"))
        return "_".join("".join(c if c.isalnum() or c in ".-_" else "-" for c in part) for part in parts)

    def changes_of(self, verdict: Verdict) -> list[CodegenChange]:
        """Distinct changes behind a verdict, in order of weight, over all cases and references."""
        changes = [c for f in self.findings if f.verdict is verdict for c in f.codegen_changes]
        return list(dict.fromkeys(changes))

    def of(self, verdict: Verdict) -> list[Finding]:
        return [f for f in self.findings if f.verdict is verdict]

    @property
    def verdicts(self) -> list[Verdict]:
        return [v for v in SEVERITY if self.of(v)]


def group_findings(findings: list[Finding]) -> list[FindingGroup]:
    """Groups in the order of the findings' commits."""
    by_key: dict[tuple[Commit, Commit, str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        key = (finding.before, finding.after, finding.candidate, finding.target)
        by_key[key].append(finding)
    return [FindingGroup(*key, tuple(members)) for key, members in by_key.items()]
