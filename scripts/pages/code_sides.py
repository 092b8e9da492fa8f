"""Two sides of a stage's code next to each other, around dQ's path. Pure: texts in, rows out.

Lines are in the canonical spelling of `ir_text` and `code_text`. The steps of dQ's path are aligned by what
they do, not by their registers or addresses; what stands around them is context and never compared.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from scripts.tracker.code_text import code_path_places, plain_code
from scripts.tracker.ir_text import ir_path_places, plain_ir
from scripts.tracker.model import Kernel, Stage
from scripts.tracker.stages import WHOLE_KERNEL_IS_DQ

_IR = {Stage.TTIR, Stage.TTGIR}
_CONTEXT = 2
_AROUND = 5  # rows beside one that differs
# More is scrolled past; the command that prints the whole text stands beside it.
MOST_ROWS = 160
_MOST_ALIGNED = 600
_WIDEST = 400
_KEPT_TEXTS = 1000  # some 50 kB each: only what stands around the path


@dataclass(frozen=True, slots=True)
class Line:
    """``number``: of the canonical text, from 1. ``step``: what it does, if it is a step of dQ's path."""

    number: int
    text: str
    step: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of each side, None where the other side has more. ``differs``: another step of dQ's path.
    ``after_gap``: lines were left out before it; ``skipped``: rows, because both sides do the same there."""

    before: Line | None
    after: Line | None
    differs: bool
    after_gap: bool
    skipped: int = 0

    @property
    def on_path(self) -> bool:
        return any(line is not None and line.step is not None for line in (self.before, self.after))


@dataclass(frozen=True, slots=True)
class StageSides:
    """``note``: why there are no rows. ``left_out``: how many rows more there are. ``digests``: of both texts
    in the evidence store, None where a record has none."""

    stage: Stage
    digests: tuple[str | None, str | None]
    rows: tuple[Row, ...] = ()
    left_out: int = 0
    note: str = ""

    @property
    def differs(self) -> bool:
        return any(row.differs for row in self.rows)


@dataclass(slots=True)
class SideReader:
    """Reads each text once while neighbours need it. ``read``: a text by its digest, None where it is not."""

    read: Callable[[str], str | None]
    _texts: dict[tuple[Stage, str, bool], list[Line] | None] = field(default_factory=dict)

    def sides(self, stage: Stage, old: Kernel, new: Kernel) -> StageSides:
        """Both sides of one stage of one kernel."""
        digests = old.objects.get(stage), new.objects.get(stage)
        before, after = (self._around_path(stage, d, old.role == WHOLE_KERNEL_IS_DQ) for d in digests)
        if before is None or after is None:
            return StageSides(stage, digests, note="the evidence store has no text of both sides")
        if digests[0] == digests[1]:
            return StageSides(stage, digests, note="the same text on both sides")
        if not before and not after:
            return StageSides(stage, digests, note="no step of dQ's path was found in either text")
        rows = _near_differences(list(_aligned(before[:_MOST_ALIGNED], after[:_MOST_ALIGNED])))
        cut = max(0, len(rows) - MOST_ROWS) + max(0, max(len(before), len(after)) - _MOST_ALIGNED)
        return StageSides(stage, digests, tuple(rows[:MOST_ROWS]), cut)

    def _around_path(self, stage: Stage, digest: str | None, whole_kernel_is_dq: bool) -> list[Line] | None:
        if digest is None:
            return None
        key = (stage, digest, whole_kernel_is_dq)
        if key not in self._texts:
            text = self.read(digest)
            if len(self._texts) >= _KEPT_TEXTS:
                self._texts.pop(next(iter(self._texts)))
            self._texts[key] = None if text is None else around_path(stage, text, whole_kernel_is_dq)
        return self._texts[key]


def around_path(stage: Stage, text: str, whole_kernel_is_dq: bool) -> list[Line]:
    """The lines of dQ's path with a few around each."""
    is_ir = stage in _IR
    lines = plain_ir(text) if is_ir else plain_code(stage, text)
    path = ir_path_places(lines) if is_ir else code_path_places(stage, lines, whole_kernel_is_dq)
    shown = sorted({n for at in path for n in range(at - _CONTEXT, at + _CONTEXT + 1) if 0 <= n < len(lines)})
    return [Line(n + 1, _cut(lines[n]), path.get(n)) for n in shown]


def _cut(line: str) -> str:
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 2]} …"


def _near_differences(rows: list[Row]) -> list[Row]:
    """All rows of sides that do the same; else those around what differs."""
    near = {n for i, row in enumerate(rows) if row.differs for n in range(i - _AROUND, i + _AROUND + 1)}
    kept: list[Row] = []
    skipped = 0
    for i, row in enumerate(rows):
        if near and i not in near:
            skipped += 1
            continue
        kept.append(replace(row, skipped=skipped))
        skipped = 0
    return kept


def _aligned(before: list[Line], after: list[Line]) -> Iterator[Row]:
    """Rows with the places where lines were left out."""
    shown = 0, 0
    for old, new, differs in _pairs(before, after):
        here = (old.number if old else shown[0]), (new.number if new else shown[1])
        jumps = any(last > 0 and at > last + 1 for last, at in zip(shown, here, strict=True))
        shown = here
        yield Row(old, new, differs, jumps)


def _pairs(before: list[Line], after: list[Line]) -> Iterator[tuple[Line | None, Line | None, bool]]:
    """(line before, line after, differs): the steps aligned, what lies between them simply side by side."""
    i = j = 0
    for differs, old, new in _steps(before, after):
        context = before[i:old] if old is not None else [], after[j:new] if new is not None else []
        yield from ((left, right, False) for left, right in zip_longest(*context))
        yield before[old] if old is not None else None, after[new] if new is not None else None, differs
        i, j = i if old is None else old + 1, j if new is None else new + 1
    yield from ((left, right, False) for left, right in zip_longest(before[i:], after[j:]))


def _steps(before: list[Line], after: list[Line]) -> Iterator[tuple[bool, int | None, int | None]]:
    """(differs, place before, place after) of dQ's steps, aligned by what they do."""
    places = [[i for i, line in enumerate(side) if line.step is not None] for side in (before, after)]
    keys = [[str(side[i].step) for i in of] for side, of in zip((before, after), places, strict=True)]
    matcher = difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    for what, i, j, k, m in matcher.get_opcodes():
        for old, new in zip_longest(places[0][i:j], places[1][k:m]):
            yield what != "equal", old, new
