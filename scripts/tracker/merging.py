"""Brings results, evidence and GPU sessions of other machines together. Merging twice, or in another order,
ends the same.

What other machines wrote is untrusted: every object is hashed, every record and result is read as the judge
reads it, and a result counts only with all of its evidence. Nothing good gives way to anything worse.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import Suite, is_complete, machine_name, write_json
from scripts.tracker.merging_timed import check_timed, is_timed, rank, session_rank, whole_session
from scripts.tracker.model import STATUS_IN_STORE, Evidence, MeasurementStatus
from scripts.tracker.results import (
    BuildFailure,
    CommitResults,
    read_commit_results,
    read_commits,
    read_failures,
)
from scripts.tracker.store import EvidenceStore, Problem, atomic_write, read_object, read_record

# Where a worker's files lie: as in its checkout, or as an archive of the three folders.
_LAYOUTS = (
    (".asv/commits/results", ".cache/evidence", ".cache/commit-sessions"),
    ("results", "evidence", "sessions"),
)
_MAX_FILE_BYTES = 64 * 2**20
_STATUSES = [STATUS_IN_STORE[status] for status in MeasurementStatus]  # the best first


@dataclass(slots=True)
class Merge:
    """Everything that was merged so far into ``results``, ``store`` and ``sessions``. ``suite``: of code;
    ``timed``: of GPU time. ``counts``: what became of each file. ``problems``: files that were left out
    because something is wrong with them."""

    results: Path
    store: EvidenceStore
    sessions: Path
    suite: Suite
    timed: Sequence[Suite] = ()
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)

    def add(self, folder: Path) -> None:
        """Merge the files of one machine. Raises TrackerError if there are none."""
        layout = next((parts for parts in _LAYOUTS if any((folder / p).is_dir() for p in parts)), None)
        if layout is None:
            names = " nor ".join(parts[0] for parts in _LAYOUTS)
            raise TrackerError(f"{folder}: neither {names} in it; name the folder of a worker")
        results, evidence, sessions = (folder / part for part in layout)
        # Objects first: a record is whole only with them, a result only with its records.
        for path in self._files(evidence, "objects/*/*.zst"):
            self._object(path)
        for path in self._files(evidence, "records/*/*/*/*.json"):
            self._record(path)
        for path in self._files(results, "*/*-*.json"):
            self._result(path)
        for path in self._files(sessions, "*/hd*.json"):
            self._session(path)
        self._lists(results)
        self._failures(results)

    def _files(self, folder: Path, pattern: str) -> Iterator[Path]:
        for path in sorted(folder.glob(pattern)):
            if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_FILE_BYTES:
                self._leave_out(path, "a link, no file, or too large")
            elif not path.name.startswith("."):
                yield path

    def _leave_out(self, path: Path, reason: object) -> None:
        self.problems.append(Problem(path, str(reason).removeprefix(f"{path}: ")))

    def _object(self, path: Path) -> None:
        digest = path.name.removesuffix(".zst")
        try:
            target = self.store.object_path(digest)
            read_object(path, digest)
        except (TrackerError, OSError, ValueError, zstandard.ZstdError) as error:
            self._leave_out(path, error)
            return
        try:
            read_object(target, digest)
            self.counts["objects had"] += 1
        except (OSError, ValueError, zstandard.ZstdError):
            atomic_write(target, path.read_bytes())
            self.counts["objects new"] += 1

    def _record(self, path: Path) -> None:
        content = path.read_bytes()
        try:
            record = read_record(path, content)
            if not self.store.has_objects(record):
                raise TrackerError("its texts did not come with it")
        except TrackerError as error:
            self._leave_out(path, error)
            return
        target = self.store.root / "records" / Path(*path.parts[-4:])
        before = _record_at(target)
        if before is None:
            atomic_write(target, content)
            self.counts["records new"] += 1
            return
        self.counts["records had"] += 1
        old, new = _rank(before, target.read_bytes(), self.suite), _rank(record, content, self.suite)
        if old[:2] == new[:2] and before.identity != record.identity:
            self._leave_out(
                path, "another machine made other code of the same commit; one of the two is kept"
            )
        if new < old:
            atomic_write(target, content)

    def _result(self, path: Path) -> None:
        try:
            found = read_commit_results(path)
            if found.machine != path.parent.name:
                raise TrackerError(f"it is of machine {found.machine!r:.60}, not of its folder")
            if is_timed(found):
                check_timed(found, self.timed, self.store)
            elif not is_complete(found, self.suite, self.store):
                raise TrackerError(
                    "not complete for today's kernels, or not all of its evidence came with it"
                )
        except TrackerError as error:
            self._leave_out(path, error)
            return
        target = self.results / path.parent.name / path.name
        before = _results_at(target)
        if before is not None and before.commit != found.commit:
            self._leave_out(path, f"{before.commit} has the same eight digits and is there already")
            return
        if is_timed(found):
            self._keep_time(found, path, before, target)
            return
        kept = before is not None and is_complete(before, self.suite, self.store)
        self.counts["results had" if kept else "results new"] += 1
        if before is None or not kept or _age(found, path) < _age(before, target):
            atomic_write(target, path.read_bytes())

    def _keep_time(
        self, found: CommitResults, path: Path, before: CommitResults | None, target: Path
    ) -> None:
        kept = False
        if before is not None:
            with suppress(TrackerError):  # what is there is of other kernels, or damaged inside
                check_timed(before, self.timed, self.store)
                kept = rank(before, self.timed, target) >= rank(found, self.timed, path)
        self.counts["timed results had" if kept else "timed results new"] += 1
        if not kept:
            atomic_write(target, path.read_bytes())

    def _session(self, path: Path) -> None:
        """The samples themselves: with them a kernel that was timed once is not timed again."""
        try:
            found = whole_session(path)
        except TrackerError as error:
            self._leave_out(path, error)
            return
        if found is None:
            self.counts["sessions unfinished"] += 1
            return
        target = self.sessions / path.parent.name / path.name
        try:
            before = whole_session(target) if target.exists() else None
        except TrackerError:
            before = None
        kept = before is not None and session_rank(before, target) >= session_rank(found, path)
        self.counts["sessions had" if kept else "sessions new"] += 1
        if not kept:
            atomic_write(target, path.read_bytes())

    def _lists(self, results: Path) -> None:
        """What is the same wherever it was written, and the order of commits as the longest list has it: a
        worker that cloned later knows more of main."""
        for path in self._files(results, "*/machine.json"):
            target = self.results / path.parent.name / path.name
            if not target.exists():
                atomic_write(target, path.read_bytes())
        for name in ("benchmarks.json", "variants.json", "flops.json"):
            if (results / name).is_file() and not (self.results / name).exists():
                atomic_write(self.results / name, (results / name).read_bytes())
        try:
            theirs, ours = read_commits(results), read_commits(self.results)
        except TrackerError as error:
            self._leave_out(results / "commits.json", error)
            return
        if (len(theirs), [c.commit for c in theirs]) > (len(ours), [c.commit for c in ours]):
            write_json(self.results / "commits.json", theirs)

    def _failures(self, results: Path) -> None:
        """A failure stays until somebody measured the commit; one for good says more than one that passes."""
        try:
            theirs = read_failures(results)
        except TrackerError as error:
            self._leave_out(results / "failures.json", error)
            return
        ours = read_failures(self.results)
        before = {target: dict(failures) for target, failures in ours.items()}
        for target, failures in theirs.items():
            for commit, failure in failures.items():
                of_target = ours.setdefault(target, {})
                of_target[commit] = min(of_target.get(commit, failure), failure, key=_gravity)
        ours = {
            target: {c: f for c, f in failures.items() if not self._is_measured(target, c)}
            for target, failures in ours.items()
        }
        if ours != before:
            write_json(self.results / "failures.json", ours)

    def _is_measured(self, target: str, commit: str) -> bool:
        """Commits come from files of other machines, so they are compared and put into no path."""
        files = (self.results / machine_name(target)).glob("*-*.json")
        named = (_results_at(path) for path in files if commit.startswith(path.name.split("-")[0]))
        return any(results is not None and results.commit == commit for results in named)


def _gravity(failure: BuildFailure) -> tuple[bool, str, str]:
    return failure.transient, failure.kind, failure.reason


def _rank(record: Evidence, content: bytes, suite: Suite) -> tuple[bool, int, str]:
    """Lower is kept: of today's kernels, then the better status. The last is for equals alone, so that the
    order of merging does not matter."""
    status = _STATUSES.index(record.status) if record.status in _STATUSES else len(_STATUSES)
    return record.fingerprint != suite.version, status, hashlib.sha256(content).hexdigest()


def _age(results: CommitResults, path: Path) -> tuple[int, str]:
    """The first measurement stands; equals are told apart by content."""
    starts = [row.started_at for row in results.benchmarks.values() if row.started_at is not None]
    return min(starts, default=0), hashlib.sha256(path.read_bytes()).hexdigest()


def _record_at(path: Path) -> Evidence | None:
    """None if there is none, or only a damaged one."""
    try:
        return read_record(path, path.read_bytes())
    except (FileNotFoundError, TrackerError):
        return None


def _results_at(path: Path) -> CommitResults | None:
    """None if there are none, or only damaged ones."""
    try:
        return read_commit_results(path)
    except (FileNotFoundError, TrackerError):
        return None
