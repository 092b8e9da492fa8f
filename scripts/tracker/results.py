"""asv's result files, read strictly: an ok, a skipped and a failed measurement stay three things.

A results folder holds, besides what asv writes, three files of ours: `commits.json` (the commits in
first-parent order, with labels), `variants.json` (what is true of each variant) and `failures.json` (why
a commit could not be measured at all).
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import (
    Case,
    CodegenMeasurement,
    Commit,
    MeasurementStatus,
    VariantFacts,
)
from scripts.tracker.store import read_regular

CODEGEN_BENCHMARK = "codegen.CodeGeneration.track_"
_SETUP = ("gpu", "driver", "power_limit_w", "clocks")
_CODEGEN_PARAMS = ("variant", "head_dim", "causal", "dtype", "target")
_ASV_RESULT_API = 2
HASH = re.compile(r"[0-9a-f]{8,64}")
# These words go into paths, file names and comments, and other machines may have written them.
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,60}")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark's row for one commit. ``values``: flat, in the order of the product of ``params``;
    NaN is skipped, None is failed (asv's own convention). ``samples``: likewise, None without."""

    params: tuple[tuple[str, ...], ...]
    values: tuple[float | None, ...]
    version: str
    samples: tuple[tuple[float, ...] | None, ...]
    started_at: int | None


@dataclass(frozen=True, slots=True)
class CommitResults:
    """One result file: one commit, machine and environment."""

    path: Path
    commit: str
    machine: str
    benchmarks: dict[str, Benchmark]
    setup_duration_s: float  # of all `setup_cache`: here, of compiling
    setup: str = ""  # GPU, driver and power limit as the machine file had them that day
    date_ms: int | None = None  # of the commit, as asv had it


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """Why a commit has no results. ``transient``: worth another try without a change. ``kind``: as
    `scripts.builder.failure` calls it, so that failures can be counted."""

    reason: str
    transient: bool
    kind: str = "other"


class _Flops(msgspec.Struct):
    n_ctx: int
    head_dim: int
    causal: bool
    flops: float


class _AsvFile(msgspec.Struct):
    """The fields that we read of asv's file; see "Files" in its documentation."""

    commit_hash: str
    params: dict[str, Any]
    result_columns: list[str]
    results: dict[str, list[Any] | None]
    durations: dict[str, float | None]
    version: int
    date: int | None = None


def read_commit_results(path: Path) -> CommitResults:
    """Read one result file. Raises TrackerError naming it if it is cut short, not asv's, or mislabelled."""
    try:
        # Not msgspec's own parser: asv writes bare NaN.
        raw = msgspec.convert(json.loads(read_regular(path)), _AsvFile)
        if raw.version != _ASV_RESULT_API:
            raise ValueError(f"asv's format {raw.version}, this program reads {_ASV_RESULT_API}")
        if not HASH.fullmatch(raw.commit_hash):
            raise ValueError(f"{raw.commit_hash!r} is no commit")
        # The file's name has only 8 digits of the hash: two commits may share them.
        if not raw.commit_hash.startswith(path.name.split("-")[0]):
            raise ValueError(f"it holds commit {raw.commit_hash}, not the one in its name")
        benchmarks = {
            name: _read_row(dict(zip(raw.result_columns, row, strict=False)))
            for name, row in raw.results.items()
            if row is not None
        }
        setups = [s for what, s in raw.durations.items() if what.startswith("<setup_cache") and s]
        machine = str(raw.params.get("machine", path.parent.name))
        setup = " ".join(f"{name} {raw.params[name]}" for name in _SETUP if name in raw.params)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError, MemoryError) as error:
        raise TrackerError(f"{path}: not a whole asv result file ({error}); {remedy(path)}") from error
    return CommitResults(path, raw.commit_hash, machine, benchmarks, sum(setups), setup, raw.date)


def _read_row(row: dict[str, Any]) -> Benchmark:
    params = tuple(tuple(str(value) for value in axis) for axis in row.get("params") or [])
    count = math.prod(len(axis) for axis in params)
    # asv writes one null for a benchmark that failed as a whole (a build, setup_cache).
    values = row["result"] if row["result"] is not None else [None] * count
    if len(values) != count:
        raise ValueError(f"{len(values)} results for {count} parameters")
    for value in values:
        if value is not None and not _is_number(value):
            raise ValueError(f"a result that is no number: {value!r:.40}")
    samples = msgspec.convert(row.get("samples") or [None] * count, list[tuple[float, ...] | None])
    if len(samples) != count:
        raise ValueError(f"{len(samples)} rows of samples for {count} parameters")
    started_at = msgspec.convert(row.get("started_at"), int | None)
    return Benchmark(params, tuple(values), str(row.get("version")), tuple(samples), started_at)


def _is_number(value: object) -> bool:
    """A float as asv writes it, NaN included; what cannot be one (endless, 400 digits) is damage."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300 or value != value


def read_results(root: Path) -> tuple[list[CommitResults], list[TrackerError]]:
    """All result files under a results folder, and an error for each one that cannot be read."""
    found: list[CommitResults] = []
    errors: list[TrackerError] = []
    for path in sorted(root.glob("*/*-*.json")):
        try:
            found.append(read_commit_results(path))
        except (TrackerError, OSError) as error:
            errors.append(error if isinstance(error, TrackerError) else TrackerError(str(error)))
    return found, errors


def codegen_measurements(results: CommitResults) -> list[CodegenMeasurement]:
    """A measurement for each case that the suite's `track_*` benchmarks have; evidence not yet attached.

    Raises TrackerError if the benchmarks disagree about their parameters.
    """
    rows = {
        name.removeprefix(CODEGEN_BENCHMARK): row
        for name, row in results.benchmarks.items()
        if name.startswith(CODEGEN_BENCHMARK)
    }
    if not rows:
        return []
    first = next(iter(rows.values()))
    if any((row.params, row.version) != (first.params, first.version) for row in rows.values()):
        raise TrackerError(
            f"{results.path}: its benchmarks are of different runs; delete it and measure again"
        )
    if len(first.params) != len(_CODEGEN_PARAMS):
        raise TrackerError(
            f"{results.path}: {len(first.params)} parameters, expected {_CODEGEN_PARAMS}; delete it"
        )
    return [
        _codegen_measurement(
            results, first.version, words, {name: row.values[i] for name, row in rows.items()}
        )
        for i, words in enumerate(itertools.product(*first.params))
    ]


def _codegen_measurement(
    results: CommitResults, version: str, words: tuple[str, ...], values: dict[str, float | None]
) -> CodegenMeasurement:
    try:
        variant, head_dim, causal, dtype, target = map(ast.literal_eval, words)
        if not all(isinstance(word, str) and WORD.fullmatch(word) for word in (variant, dtype, target)):
            raise ValueError("not plain words")
        case = Case(int(head_dim), bool(causal), dtype)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise TrackerError(
            f"{results.path}: parameters {str(words)[:200]} are not those of the suite ({error}); "
            "delete it and run make track again"
        ) from error
    # One metric that failed means that the record failed: all come from the same compilation.
    if any(value is None for value in values.values()):
        status = MeasurementStatus.FAILED
    elif all(value is None or math.isnan(value) for value in values.values()):
        status = MeasurementStatus.SKIPPED
    else:
        status = MeasurementStatus.OK
    metrics = {name: None if value is None or math.isnan(value) else value for name, value in values.items()}
    return CodegenMeasurement(
        commit=results.commit,
        variant=variant,
        case=case,
        target=target,
        status=status,
        metrics=metrics if status is MeasurementStatus.OK else {},
        version=version,
    )


def read_commits(root: Path) -> list[Commit]:
    """The commits of a results folder in first-parent order; empty if nobody wrote the list.

    Labels become file names and words of a command, so they must be plain.
    """
    commits = _read_ours(root / "commits.json", list[Commit]) or []
    if len({c.commit for c in commits}) < len(commits):
        raise TrackerError(
            f"{root / 'commits.json'}: a commit stands there twice; {remedy(root / 'commits.json')}"
        )
    for commit in commits:
        if not LABEL.fullmatch(commit.label):
            raise TrackerError(f"{root / 'commits.json'}: {commit.label!r} is no label; run make track again")
    return commits


def read_variants(root: Path) -> dict[str, VariantFacts]:
    """What is true of each variant that was measured."""
    return _read_ours(root / "variants.json", dict[str, VariantFacts]) or {}


def read_flops(root: Path) -> dict[tuple[int, int, bool], float]:
    """{(n_ctx, head_dim, causal): floating-point operations} of the timed cases."""
    rows = _read_ours(root / "flops.json", list[_Flops]) or []
    return {(row.n_ctx, row.head_dim, row.causal): row.flops for row in rows}


def read_machines(root: Path) -> dict[str, dict[str, Any]]:
    """asv's description of each machine of a results folder."""
    return {path.parent.name: _read_ours(path, dict[str, Any]) or {} for path in root.glob("*/machine.json")}


def read_failures(root: Path) -> dict[str, dict[str, BuildFailure]]:
    """{target: {commit: failure}} of commits that could not be measured."""
    return _read_ours(root / "failures.json", dict[str, dict[str, BuildFailure]]) or {}


def _read_ours(path: Path, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(read_regular(path), type=kind)
    except FileNotFoundError:
        return None
    except (ValueError, msgspec.MsgspecError, RecursionError, OSError) as error:
        raise TrackerError(f"{path}: not readable ({error}); {remedy(path)}") from error


def remedy(path: Path) -> str:
    """What to do about a damaged file: recorded history comes from git, the rest can be made again."""
    if "recorded" in path.parts:
        return "restore it from git"
    return "delete it and run make track again, what is compiled is not lost"
