"""Every metric of every variant's code over the commits, as tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scripts.tracker.measured import History
from scripts.tracker.model import Case, CodegenMeasurement, Commit
from scripts.tracker.policy import read_policy

NOT_JUDGED = "compile_duration_s"  # wall seconds: the only noisy one
# Wider tables are read by nobody: of longer histories, what is the same as before is left out.
MOST_COLUMNS = 30


@dataclass(frozen=True, slots=True)
class Cell:
    """``changed``: it differs from the last commit that has a value."""

    text: str
    changed: bool


@dataclass(frozen=True, slots=True)
class VariantTable:
    """``rows``: metric and a cell a commit. ``status``: in words, "not measured" too."""

    name: str
    commits: tuple[Commit, ...]
    status: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True)
class CodeTable:
    """One target and case. ``measured``: at how many commits."""

    target: str
    case: Case
    measured: int
    variants: tuple[VariantTable, ...]


def code_tables(history: History) -> Iterator[CodeTable]:
    """In the order of targets and cases; metrics in order of weight, what is judged first."""
    found: dict[tuple[str, Case], dict[tuple[str, str], CodegenMeasurement]] = {}
    for m in history.measurements:
        found.setdefault((m.target, m.case), {})[m.variant, m.commit] = m
    judged = [rule.metric for rule in read_policy().codegen.rule]
    names = dict.fromkeys(name for m in history.measurements for name in m.metrics)
    metrics = [name for name in judged if name in names] + [n for n in names if n not in judged]
    for (target, case), by_cell in sorted(found.items(), key=lambda item: item[0]):
        with_any = {commit for _, commit in by_cell}
        commits = [c for c in history.commits if c.commit in with_any]
        tables = []
        for variant in history.variants:
            cells = [by_cell.get((variant, c.commit)) for c in commits]
            tables.append(_table(variant, commits, cells, metrics))
        yield CodeTable(target, case, len(commits), tuple(tables))


def _table(
    variant: str, commits: list[Commit], found: list[CodegenMeasurement | None], metrics: list[str]
) -> VariantTable:
    status = [m.status.value if m else "not measured" for m in found]
    rows = [(name, _cells([m.metrics.get(name) if m else None for m in found])) for name in metrics]
    kept = _columns(status, [cells for name, cells in rows if name != NOT_JUDGED])
    return VariantTable(
        variant,
        tuple(commits[i] for i in kept),
        tuple(status[i] for i in kept),
        tuple((name, tuple(cells[i] for i in kept)) for name, cells in rows),
    )


def _columns(status: list[str], rows: list[list[Cell]]) -> list[int]:
    """All of a short history; of a long one the first, the last, and where something differs from before."""
    if len(status) <= MOST_COLUMNS:
        return list(range(len(status)))
    differs = [
        i
        for i in range(1, len(status))
        if status[i] != status[i - 1] or any(cells[i].changed for cells in rows)
    ]
    return sorted({0, *differs[-MOST_COLUMNS + 2 :], len(status) - 1})


def _cells(values: list[float | None]) -> list[Cell]:
    cells, last = [], None
    for value in values:
        cells.append(Cell(number(value), last is not None and value is not None and value != last))
        last = value if value is not None else last
    return cells


def number(value: float | None) -> str:
    """As many digits as say something; "n/a" for what is not there."""
    if value is None:
        return "n/a"
    return f"{value:.0f}" if value == int(value) else f"{value:.4g}"
