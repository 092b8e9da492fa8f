"""What another machine hands in, before anything of it is kept. That machine ran other people's code.

A folder holds asv results, evidence and answers, and nothing else; every file is one that was asked for, of a
size that makes sense, and read by the reader that will read it later.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from scripts.tracker.confirmation import read_confirmations
from scripts.tracker.errors import TrackerError
from scripts.tracker.results import (
    codegen_measurements,
    read_commit_results,
    read_failures,
    read_variants,
)
from scripts.tracker.timed_results import timing_measurements

MAX_FILE_BYTES = 32 * 2**20
MAX_TOTAL_BYTES = 2 * 2**30
_MAX_FILES = 200_000
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}"
# Shapes of paths. Evidence is addressed by content: its own reader checks it whenever it is used.
_RESULT = re.compile(rf"results/{_NAME}/[0-9a-f]{{8}}-{_NAME}\.json")
_ANSWER = re.compile(r"confirmations/[0-9a-f]{12}\.json")
_OTHERS = [
    re.compile(rf"results/{_NAME}/machine\.json"),
    re.compile(r"results/(benchmarks|commits|variants|failures)\.json"),
    re.compile(r"evidence/objects/[0-9a-f]{2}/[0-9a-f]{64}\.zst"),
    re.compile(rf"evidence/records/{_NAME}/[0-9a-f]{{40}}/{_NAME}/[a-z0-9_]{{1,60}}\.json"),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for. ``findings``: whose answers may come."""

    commits: Collection[str]
    findings: Collection[str] = field(default_factory=frozenset)


def check_incoming(folder: Path, asked: Asked) -> list[str]:
    """Everything that is wrong, a line each; empty if all may be kept. The folder is only read."""
    problems: list[str] = []
    total_bytes = 0
    for count, path in enumerate(sorted(folder.rglob("*"))):
        if count > _MAX_FILES:
            return [*problems, f"more than {_MAX_FILES} files"]
        name = path.relative_to(folder).as_posix()
        facts = path.lstat()
        if stat.S_ISDIR(facts.st_mode):
            continue
        if not stat.S_ISREG(facts.st_mode):
            problems.append(f"{name}: a link or a device, no file")
            continue
        total_bytes += facts.st_size
        if facts.st_size > MAX_FILE_BYTES or total_bytes > MAX_TOTAL_BYTES:
            problems.append(f"{name}: {facts.st_size} bytes, {total_bytes} with those before it: too much")
        elif problem := _problem(path, name, asked):
            problems.append(f"{name}: {problem}")
    # A link or a pipe must not be read, so the lists come last.
    return problems or _lists(folder / "results")


def _problem(path: Path, name: str, asked: Asked) -> str:
    if _RESULT.fullmatch(name):
        return _result(path, asked.commits)
    if _ANSWER.fullmatch(name):
        return "" if path.stem in asked.findings else "nobody asked about this finding"
    if any(pattern.fullmatch(name) for pattern in _OTHERS):
        commit = name.split("/")[3] if name.startswith("evidence/records/") else ""
        return "" if not commit or commit in asked.commits else "not one of the planned commits"
    return "no file of a worker has such a name"


def _result(path: Path, commits: Collection[str]) -> str:
    try:
        results = read_commit_results(path)
        if results.commit not in commits:
            return f"{results.commit[:10]} is not one of the planned commits"
        codegen_measurements(results)
        timing_measurements(results)
    except TrackerError as error:
        return str(error)
    return ""


def _lists(results: Path) -> list[str]:
    """The lists beside the results and the answers, by their own readers."""
    readers: tuple[Callable[[Path], object], ...] = (read_variants, read_failures)
    found = []
    for read, folder in (
        *((read, results) for read in readers),
        (read_confirmations, results.parent / "confirmations"),
    ):
        try:
            read(folder)
        except (TrackerError, OSError) as error:
            found.append(str(error))
    return found
