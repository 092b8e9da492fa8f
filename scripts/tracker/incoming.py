"""What another machine hands in, before anything of it is kept. That machine ran other people's code.

A folder holds asv results, evidence, GPU sessions and answers, and nothing else; every file is one that was
asked for, of a size that makes sense, and read by the reader that will read it later. Lists of commits,
variants and benchmarks are no worker's to give: they order and name everything, so the plan has them.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scripts.tracker.confirmation import read_confirmations
from scripts.tracker.errors import TrackerError
from scripts.tracker.results import (
    codegen_measurements,
    read_commit_results,
    read_failures,
    read_flops,
    read_machines,
)
from scripts.tracker.session_files import parse_session
from scripts.tracker.timed_results import canary_measurements, timing_measurements

MAX_FILE_BYTES = 32 * 2**20
MAX_TOTAL_BYTES = 2 * 2**30
_MAX_FILES = 200_000
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}"
# Shapes of paths. Evidence is addressed by content: its own reader checks it whenever it is used.
# asv's name of an environment has each requirement with its version: over a hundred characters.
_RESULT = re.compile(rf"results/{_NAME}/[0-9a-f]{{8}}-[A-Za-z0-9._+-]{{1,230}}\.json")
_SESSION = re.compile(rf"sessions/{_NAME}/hd{_NAME}\.json")
_ANSWER = re.compile(r"confirmations/[0-9a-f]{12}\.json")
_MACHINE = re.compile(rf"results/{_NAME}/machine\.json")
_OTHERS = [
    re.compile(r"results/(failures|flops)\.json"),
    re.compile(r"evidence/objects/[0-9a-f]{2}/[0-9a-f]{64}\.zst"),
    re.compile(rf"evidence/records/{_NAME}/[0-9a-f]{{40}}/{_NAME}/[a-z0-9_]{{1,60}}\.json"),
]


# What asv and we write there; a duration's name has brackets: "<build>", "<setup_cache codegen:36>".
_PLAIN = re.compile(r"[A-Za-z0-9 .,:;+@_()/'=-]*", re.ASCII)
_STEP = re.compile(r"<(build|setup_cache [a-z_]{1,40}:[0-9]{1,6})>")


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
    if _MACHINE.fullmatch(name):
        return _markup(path)
    if _SESSION.fullmatch(name):
        return _session(path, asked.commits)
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
        canary_measurements(results)
    except TrackerError as error:
        return str(error)
    return _markup(path)


def _session(path: Path, commits: Collection[str]) -> str:
    """An interrupted case may come as well: whoever merges leaves it out."""
    try:
        session = parse_session(path)
    except TrackerError as error:
        return str(error)
    strangers = {subject.commit for subject in session.subjects} - set(commits)
    return f"{min(strangers)[:10]} is not one of the planned commits" if strangers else ""


def _markup(path: Path) -> str:
    """asv puts words of these files into its pages and into names of files; of such words it makes none."""
    try:
        strings = [text for text in _strings(json.loads(path.read_bytes())) if not _STEP.fullmatch(text)]
    except (ValueError, RecursionError) as error:
        return f"no JSON ({error})"
    odd = next((text for text in strings if not _PLAIN.fullmatch(text) or ".." in text), None)
    return "" if odd is None else f"{odd[:60]!r} is no plain word"


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, dict):
        yield from value
        for one in value.values():
            yield from _strings(one)


def _lists(results: Path) -> list[str]:
    """The lists beside the results and the answers, by their own readers."""
    readers: tuple[Callable[[Path], object], ...] = (read_failures, read_flops, read_machines)
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
