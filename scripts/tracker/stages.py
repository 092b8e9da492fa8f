"""Which stage of the compiler did it: two sides' texts of every stage, compared in a canonical spelling.

Between releases every text differs somewhere, so the question is asked twice: on dQ's path, and in the
rest of the kernel. Texts are read only when it is called, by the reader that it is given.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path

import msgspec

from scripts.tracker.code_text import code_path, plain_code, same_but_for_names
from scripts.tracker.excerpt import excerpt
from scripts.tracker.ir_text import PathOperation, attribute_names, ir_path, plain_ir, same_ir_but_for_names
from scripts.tracker.model import (
    Case,
    CodegenMeasurement,
    Evidence,
    Finding,
    Kernel,
    Stage,
    Verdict,
)
from scripts.tracker.store import atomic_write, read_regular

# A stage's text by its digest; None where the store does not have it.
TextReader = Callable[[str], str | None]
# The kernel of `two_pass` that makes nothing but dQ: all that it writes is dQ's.
WHOLE_KERNEL_IS_DQ = "backward_dq"
_NAMED_OPERATIONS = 3
_OPERATION = re.compile(r"(?:%[^=]*= )?(?:@!?\S+ )?(?:tail )?\"?([A-Za-z_][\w.]*)")
# About 0.3 MB each. Findings come in order of commits, so a text's two uses are close together.
_IR = {Stage.TTIR, Stage.TTGIR}
_KEPT_FORMS = 200
_LAYOUT_PART = re.compile(r"\w+ = (?:\[[^\]]*\]|[\w.]+)|\w+(?=<\{)")


class StageOutcome(StrEnum):
    """How a stage's text differs, mildest first but for UNKNOWN."""

    SAME = "same"
    RENAMED = "only renamed"
    ELSEWHERE = "differs elsewhere"
    ON_PATH = "differs on dQ's path"
    UNKNOWN = "unknown (no text)"


class _Form:
    """A text in canonical spelling, and dQ's path through it."""

    def __init__(self, stage: Stage, text: str, whole_kernel_is_dq: bool) -> None:
        is_ir = stage in _IR
        self._stage = stage
        self._lines = plain_ir(text) if is_ir else plain_code(stage, text)
        self._path: Sequence[PathOperation | str] = (
            ir_path(self._lines) if is_ir else code_path(stage, self._lines, whole_kernel_is_dq)
        )

    def path_against(self, other: _Form) -> list[str]:
        """dQ's path as it is spelled when held against another text."""
        return [line if isinstance(line, str) else line.spell(other._attributes) for line in self._path]

    @cached_property
    def _attributes(self) -> frozenset[str]:
        return attribute_names(self._lines)

    def operations(self) -> Counter[str]:
        """How often each operation stands in the whole kernel."""
        return Counter(m.group(1) for line in self._lines if (m := _OPERATION.match(line)))

    def is_same_but_for_names(self, other: _Form) -> bool:
        if self._stage in _IR:
            return same_ir_but_for_names(self._lines, other._lines)
        return same_but_for_names(self._stage, self._lines, other._lines)


@dataclass(frozen=True, slots=True)
class StageComparison:
    """One stage. ``gone`` and ``come``: what left dQ's path and what came to it, in words; where it differs
    elsewhere, ``come`` names the operations whose number changed most."""

    stage: Stage
    outcome: StageOutcome
    gone: str = ""
    come: str = ""
    excerpt: str | None = None


@dataclass(frozen=True, slots=True)
class StagesReport:
    """The stages of one variant, before and after, up to the first that differs on dQ's path: what follows
    from that is no news."""

    comparisons: tuple[StageComparison, ...]

    @property
    def first_on_path(self) -> StageComparison | None:
        """The first stage that is known to differ on dQ's path."""
        return self._first(StageOutcome.ON_PATH)

    @property
    def first_changed_stage(self) -> Stage | None:
        return self.first_on_path.stage if self.first_on_path else None

    @property
    def excerpt(self) -> str | None:
        return self.first_on_path.excerpt if self.first_on_path else None

    def _first(self, *outcomes: StageOutcome) -> StageComparison | None:
        return next((c for c in self.comparisons if c.outcome in outcomes), None)

    def _named(self, *outcomes: StageOutcome) -> str:
        return ", ".join(c.stage for c in self.comparisons if c.outcome in outcomes)

    def explain(self) -> str:
        """In words: where dQ's path first differs and how, where the rest does, and what is not known."""
        unknown = self._named(StageOutcome.UNKNOWN)
        if unknown == ", ".join(Stage):
            return "The evidence store has no texts for both sides, so the stage is unknown."
        sentences = [self._explain_path(), *self._explain_rest()]
        if unknown:
            sentences.append(f"Not known, because the evidence store has no text of it: {unknown}.")
        return " ".join(sentences)

    def _explain_path(self) -> str:
        known = [c for c in self.comparisons if c.outcome is not StageOutcome.UNKNOWN]
        found = self.first_on_path
        if found is None:
            where = "every stage" if len(known) == len(Stage) else ", ".join(c.stage for c in known)
            return f"dQ's path is the same in {where}."
        earlier = ", ".join(
            c.stage for c in known if list(Stage).index(c.stage) < list(Stage).index(found.stage)
        )
        same = f"dQ's path is the same in {earlier}; it" if earlier else "dQ's path"
        how = f"{found.gone or 'nothing'} became {found.come or 'nothing'}"
        return f"{same} first differs in {found.stage}: {how}."

    def _explain_rest(self) -> list[str]:
        """The rest of the kernel, up to where dQ's path differs: what follows from that is no news."""
        rest = self._first(StageOutcome.ELSEWHERE, StageOutcome.ON_PATH)
        if rest is None:
            exact = self._first(StageOutcome.RENAMED) is None
            return ["So is the rest of the kernel." if exact else "So is the rest, but for names."]
        if rest.outcome is StageOutcome.ELSEWHERE:
            most = f" (most: {rest.come})" if rest.come else ""
            return [f"The rest of the kernel first differs in {rest.stage}{most}."]
        return []


NOT_COMPARED = StagesReport(tuple(StageComparison(stage, StageOutcome.UNKNOWN) for stage in Stage))


class StageComparer:
    """Compares records by the texts behind them. A text is read and spelled once: neighbours share it.

    ``kept``: a folder of earlier reports, by the texts' hashes and our own sources; None keeps nothing.
    """

    def __init__(self, read: TextReader, kept: Path | None = None) -> None:
        self._read, self._kept = read, kept
        self._forms: dict[tuple[Stage, str, bool], _Form | None] = {}
        self._reports: dict[tuple[str, ...], StagesReport] = {}

    def compare(self, before: Evidence, after: Evidence) -> StagesReport:
        """Every stage of a variant. Findings of several references and lengths share the answer."""
        key = tuple(d for side in (before, after) for k in side.kernels for d in sorted(k.objects.values()))
        if not key:
            return self._compare_kernels(before, after)
        if key not in self._reports:
            self._reports[key] = self._kept_or_new(key, before, after)
        return self._reports[key]

    def _kept_or_new(self, key: tuple[str, ...], before: Evidence, after: Evidence) -> StagesReport:
        if self._kept is None:
            return self._compare_kernels(before, after)
        path = self._kept / f"{hashlib.sha256(' '.join((_sources(), *key)).encode()).hexdigest()}.json"
        try:
            return msgspec.json.decode(read_regular(path), type=StagesReport)
        except (OSError, ValueError, msgspec.MsgspecError):
            report = self._compare_kernels(before, after)
        if all(c.outcome is not StageOutcome.UNKNOWN for c in report.comparisons):
            with contextlib.suppress(OSError):  # without it the next run takes longer, and that is all
                atomic_write(path, msgspec.json.encode(report))
        return report

    def _compare_kernels(self, before: Evidence, after: Evidence) -> StagesReport:
        """Kernels are held together by their role (`two_pass` has two)."""
        old = {kernel.role: kernel for kernel in before.kernels}
        new = {kernel.role: kernel for kernel in after.kernels}
        if not old or old.keys() != new.keys():
            return NOT_COMPARED
        comparisons: list[StageComparison] = []
        for stage in Stage:
            # What changed most is told of the first stage alone.
            told = any(c.outcome is StageOutcome.ELSEWHERE for c in comparisons)
            comparisons.append(_worst([self._compare(stage, old[role], new[role], told) for role in old]))
            if comparisons[-1].outcome is StageOutcome.ON_PATH:
                break
        return StagesReport(tuple(comparisons))

    def _compare(self, stage: Stage, old: Kernel, new: Kernel, told: bool) -> StageComparison:
        digests = old.objects.get(stage), new.objects.get(stage)
        if digests[0] is not None and digests[0] == digests[1]:
            return StageComparison(stage, StageOutcome.SAME)
        before, after = (self._form(stage, digest, old.role == WHOLE_KERNEL_IS_DQ) for digest in digests)
        if before is None or after is None:
            return _compare_counts(stage, old, new)
        old_path, new_path = before.path_against(after), after.path_against(before)
        if Counter(old_path) != Counter(new_path):
            gone, come = _difference(Counter(old_path), Counter(new_path))
            return StageComparison(stage, StageOutcome.ON_PATH, gone, come, excerpt(old_path, new_path))
        if before.is_same_but_for_names(after):
            return StageComparison(stage, StageOutcome.RENAMED)
        most = "" if told else _most_changed(before, after)
        return StageComparison(stage, StageOutcome.ELSEWHERE, come=most)

    def _form(self, stage: Stage, digest: str | None, whole_kernel_is_dq: bool) -> _Form | None:
        if digest is None:
            return None
        key = (stage, digest, whole_kernel_is_dq)
        if key not in self._forms:
            text = self._read(digest)
            if len(self._forms) >= _KEPT_FORMS:
                self._forms.pop(next(iter(self._forms)))
            self._forms[key] = None if text is None else _Form(stage, text, whole_kernel_is_dq)
        return self._forms[key]


@cache
def _sources() -> str:
    """Of all that makes a report of texts."""
    here = Path(__file__).parent
    names = ("stages.py", "ir_text.py", "code_text.py", "excerpt.py")
    return hashlib.sha256(b"".join((here / name).read_bytes() for name in names)).hexdigest()


def _most_changed(before: _Form, after: _Form) -> str:
    old, new = before.operations(), after.operations()
    changed = sorted(
        (name for name in old | new if old[name] != new[name]), key=lambda n: (-_factor(old[n], new[n]), n)
    )
    return ", ".join(f"{name} {old[name]} -> {new[name]}" for name in changed[:_NAMED_OPERATIONS])


def _factor(old: int, new: int) -> float:
    """By how many times a count changed; one more, so that what is new can be compared with it."""
    return (max(old, new) + 1) / (min(old, new) + 1)


def with_stages(
    findings: list[Finding], measurements: list[CodegenMeasurement], stages: StageComparer
) -> list[Finding]:
    """Findings with the stage that did it. Last of all, so that texts are read for what is found only."""
    records = {(m.commit, m.variant, m.case, m.target): m.evidence for m in measurements}
    return [_with_stage(finding, records, stages) for finding in findings]


def _with_stage(
    finding: Finding, records: dict[tuple[str, str, Case, str], Evidence | None], stages: StageComparer
) -> Finding:
    if finding.verdict is Verdict.NO_VALID_DATA:
        return finding
    case = replace(finding.case, n_ctx=None)  # code does not depend on it
    before, after = (
        records.get((commit.commit, finding.subject, case, finding.target))
        for commit in (finding.before, finding.after)
    )
    report = stages.compare(before, after) if before and after else NOT_COMPARED
    return replace(
        finding,
        first_changed_stage=report.first_changed_stage,
        explanation=f"{finding.explanation} Of {finding.subject}: {report.explain()}",
        excerpt=report.excerpt,
    )


def _worst(comparisons: list[StageComparison]) -> StageComparison:
    """Of several kernels the one that says most: a known difference before what is not known."""
    weight = [StageOutcome.SAME, StageOutcome.RENAMED, StageOutcome.UNKNOWN, StageOutcome.ELSEWHERE]
    return max(comparisons, key=lambda c: weight.index(c.outcome) if c.outcome in weight else len(weight))


def _compare_counts(stage: Stage, old: Kernel, new: Kernel) -> StageComparison:
    """Without texts there are the counts in the records: if they differ, so does the path; if they are
    equal, nothing is proved."""
    before, after = (Counter(kernel.dq_path.get(stage, {})) for kernel in (old, new))
    if before == after:
        return StageComparison(stage, StageOutcome.UNKNOWN)
    return StageComparison(stage, StageOutcome.ON_PATH, *_difference(before, after))


def _difference(before: Counter[str], after: Counter[str]) -> tuple[str, str]:
    """What left dQ's path and what came to it, as words."""

    def words(counts: Counter[str], other: Counter[str]) -> str:
        changed = sorted((name, n) for name, n in counts.items() if other.get(name) != n)
        return ", ".join(f"{n} x {_short(name, list(other))}" for name, n in changed)

    return words(before, after), words(after, before)


def _short(line: str, others: list[str]) -> str:
    """An operation of TTGIR by what of its layouts the other side's does not have; all else as it is."""
    operation, typed, _ = line.partition(" : ")
    if not typed:
        return line
    name = operation.split(" ")[0]
    there = {p for other in others if other.split(" ")[0] == name for p in _LAYOUT_PART.findall(other)}
    own = [part for part in dict.fromkeys(_LAYOUT_PART.findall(line)) if part not in there]
    return f"{name} ({', '.join(own)})" if own and there else name
