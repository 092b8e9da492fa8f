"""Renamed benchmarks and variants, and parameters that came later, so that a series goes on.

What is renamed without an entry here is one series that ended and another that began; it is never a change.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.results import Benchmark, CommitResults

RENAMES_FILE = Path(__file__).resolve().parent.parent / "renames.toml"


class Renamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A name and what it is called now."""

    old: str
    new: str


class AddedParameter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A parameter that a benchmark did not have at first. ``value``: what was measured then, as asv writes
    it (the repr); ``count``: how many parameters there are with it."""

    benchmark: str
    position: Annotated[int, msgspec.Meta(ge=0, le=20)]
    count: Annotated[int, msgspec.Meta(ge=1, le=20)]
    value: str


class Renames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of renames.toml. ``variant``: names among the values of the first parameter."""

    benchmark: tuple[Renamed, ...] = ()
    variant: tuple[Renamed, ...] = ()
    parameter: tuple[AddedParameter, ...] = ()


def read_renames(path: Path = RENAMES_FILE) -> Renames:
    """Raises TrackerError naming the file and the key."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Renames)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TrackerError(f"{path}: {error}; restore it from git or mend the entry") from error


def renamed(results: CommitResults, renames: Renames) -> CommitResults:
    """A result file under today's names. Raises TrackerError if one file has an old name and its new one."""
    names = {entry.old: entry.new for entry in renames.benchmark}
    variants = {repr(entry.old): repr(entry.new) for entry in renames.variant}
    benchmarks: dict[str, Benchmark] = {}
    for name, row in results.benchmarks.items():
        today = names.get(name, name)
        if today in benchmarks:
            raise TrackerError(f"{results.path}: {today} stands there under two names; mend {RENAMES_FILE}")
        for added in renames.parameter:
            if today.startswith(added.benchmark) and len(row.params) == added.count - 1:
                params = (*row.params[: added.position], (added.value,), *row.params[added.position :])
                row = replace(row, params=params)
        first = tuple(variants.get(word, word) for word in row.params[0]) if row.params else ()
        if len(set(first)) < len(first):
            raise TrackerError(f"{results.path}: a variant has two names in {name}; mend {RENAMES_FILE}")
        benchmarks[today] = replace(row, params=(first, *row.params[1:])) if row.params else row
    return replace(results, benchmarks=benchmarks)
