"""TFLOP/s of the whole backward from asv results: the table of issue 4717, of any commits."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.results import CommitResults

SCHEMA = 1  # of the JSON
ISSUE_FILE = Path(__file__).resolve().parent.parent / "issue_4717.toml"


class Issue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figures of issue 4717. ``tflops``: {variant: one a n_ctx}."""

    source: str
    device: str
    head_dim: int
    n_ctx: list[int]
    tflops: dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Row:
    """``tflops``: one a n_ctx; None where it was not measured, is not there or failed."""

    name: str
    where: str
    tflops: tuple[float | None, ...]


def read_issue(path: Path = ISSUE_FILE) -> Issue:
    """Raises TrackerError naming the file."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Issue)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise TrackerError(f"{path}: {error}; restore it from git") from error


def medians_s(results: Iterable[CommitResults], benchmark: str) -> dict[tuple[str, str, int, int], float]:
    """{(commit, variant or canary, n_ctx, head_dim): median seconds}; of several files the first counts."""
    found: dict[tuple[str, str, int, int], float] = {}
    for result in results:
        row = result.benchmarks.get(benchmark)
        for words, value in zip(itertools.product(*row.params), row.values, strict=True) if row else ():
            what, n_ctx, head_dim = (ast.literal_eval(word) for word in words[:3])
            if value is not None and not math.isnan(value):
                found.setdefault((result.commit, str(what), int(n_ctx), int(head_dim)), value)
    return found


def rows_of(
    medians: dict[tuple[str, str, int, int], float],
    flops: dict[tuple[int, int, bool], float],
    commits: list[tuple[str, str]],
    names: list[str],
    n_ctx: list[int],
    head_dim: int,
) -> list[Row]:
    """A row for each name and commit (hash, label) that has a figure."""
    rows = []
    for name, (commit, label) in itertools.product(names, commits):
        values = tuple(_tflops(medians.get((commit, name, n, head_dim)), flops, n, head_dim) for n in n_ctx)
        if any(value is not None for value in values):
            rows.append(Row(name, label, values))
    return rows


def _tflops(
    seconds: float | None, flops: dict[tuple[int, int, bool], float], n_ctx: int, head_dim: int
) -> float | None:
    operations = flops.get((n_ctx, head_dim, True))
    return operations / seconds / 1e12 if seconds and operations else None


def tflops_json(head_dim: int, n_ctx: list[int], rows: list[Row]) -> str:
    """{"schema": 1, "head_dim", "n_ctx", "rows": [{"name", "where", "tflops": a number or null each}]}."""
    document = {"schema": SCHEMA, "head_dim": head_dim, "n_ctx": n_ctx, "rows": rows}
    return msgspec.json.format(msgspec.json.encode(document)).decode()
