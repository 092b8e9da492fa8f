"""Which followed commits a GPU still has to time: those whose code differs from that of the measured commit
before them. The others cost nothing: they share its time (`shared_time`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Case, CodegenMeasurement, Commit, TimingMeasurement
from scripts.tracker.results import (
    HASH,
    CommitResults,
    codegen_measurements,
    read_commits,
    read_results,
)
from scripts.tracker.shared_time import Codes, bare, codes_of, share
from scripts.tracker.store import EvidenceStore, atomic_write, read_regular
from scripts.tracker.timed_results import timing_measurements
from scripts.tracker.workspace import Workspace

_NO_COMMIT_BYTES = 200


@dataclass(frozen=True, slots=True)
class Change:
    """A commit whose code differs from that of ``before``, its nearest measured ancestor, in ``cases``."""

    before: Commit
    after: Commit
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class TimingBacklog:
    """Of the measured commits: ``changes``, newest first; of them those that are ``waiting``; and the
    ``sharing`` commits, whose code is their parent's. The first measured commit is none of them: there is
    nothing before it."""

    changes: tuple[Change, ...]
    waiting: tuple[Change, ...]
    sharing: tuple[Commit, ...]

    @property
    def timed(self) -> int:
        """How many changes have their time."""
        return len(self.changes) - len(self.waiting)


def in_numbers(backlog: TimingBacklog) -> str:
    """Timed, shared and waiting are three things."""
    return (
        f"{backlog.timed} changes of code timed, {len(backlog.waiting)} wait for a GPU; "
        f"{len(backlog.sharing)} commits have their parent's code and share its time"
    )


def timing_backlog(
    commits: Sequence[Commit], codes: Codes, timings: Sequence[TimingMeasurement], cases: Sequence[Case]
) -> TimingBacklog:
    """``cases``: with n_ctx, those that shall be timed. A change is timed if one session has both of its
    sides in every case in which their code differs; failed and invalid times count, because to try again
    costs as much as the first time (--fresh does)."""
    bare_cases = {bare(case) for case in cases}
    measured = [c for c in commits if all((c.commit, case) in codes for case in bare_cases)]
    together = _together(timings, codes)
    changes, waiting, sharing = [], [], []
    for before, after in reversed(list(pairwise(measured))):
        ours, theirs = ({case: codes[c.commit, case] for case in bare_cases} for c in (after, before))
        open_ = [case for case in cases if ours[bare(case)] != theirs[bare(case)]]
        if not open_:
            sharing.append(after)
            continue
        changes.append(Change(before, after, tuple(dict.fromkeys(map(bare, open_)))))
        if not all((case, ours[bare(case)], theirs[bare(case)]) in together for case in open_):
            waiting.append(changes[-1])
    return TimingBacklog(tuple(changes), tuple(waiting), tuple(sharing))


def _together(timings: Sequence[TimingMeasurement], codes: Codes) -> set[tuple[Case, object, object]]:
    """(case, one code, another) that one session has both of."""
    found: set[tuple[Case, object, object]] = set()
    for _, times in share(timings, codes):
        in_session: dict[str, list[object]] = {}
        for key, sessions in times.sessions.items():
            for session in sessions:
                in_session.setdefault(session, []).append(key)
        for keys in in_session.values():
            found |= {(times.case, one, other) for one in keys for other in keys}
    return found


def read_backlog(
    workspace: Workspace, target: str, version: str, cases: Sequence[Case]
) -> tuple[TimingBacklog, list[TrackerError]]:
    """From the result files and the evidence, with an error for each file that cannot be read. ``version``:
    of the timed suite; what was timed by another method, or of other kernels, is timed again."""
    results, errors = read_results(workspace.results)
    measurements: list[CodegenMeasurement] = []
    timings: list[TimingMeasurement] = []
    for found in results:
        try:
            measurements += _with_evidence(found, workspace.evidence, version.split(".")[0])
            timings += [t for t in timing_measurements(found) if t.version == version]
        except TrackerError as error:
            errors.append(error)
    codes = codes_of(measurements, target)
    return timing_backlog(read_commits(workspace.results), codes, timings, cases), errors


def _with_evidence(found: CommitResults, evidence: EvidenceStore, kernels: str) -> list[CodegenMeasurement]:
    """Versions are "KERNELS.METRICS" (`kernels.fingerprint`): only of the kernels that would be timed."""
    rows = []
    for m in codegen_measurements(found):
        if m.version.split(".")[0] == kernels:
            record = evidence.load(m.target, m.commit, m.case, m.variant)
            current = record is not None and record.fingerprint == m.version
            rows.append(replace(m, evidence=record if current else None))
    return rows


def read_anchor(evidence: EvidenceStore, target: str) -> str | None:
    """The commit that every session of this store times as well, so that sessions months apart have something
    in common; None before the first, or if its kernels are gone. `benchmarks._timed` keeps the same file."""
    path = _anchor_file(evidence, target)
    try:
        commit = read_regular(path, _NO_COMMIT_BYTES).decode().strip()
        if not HASH.fullmatch(commit):
            raise ValueError(f"{commit!r} is no commit")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TrackerError(
            f"{path}: not the anchor ({error}); delete it, the next session sets one"
        ) from error
    return commit if evidence.count_records(target, commit) else None


def keep_anchor(evidence: EvidenceStore, target: str, commit: str) -> None:
    """Frozen for as long as its kernels are there."""
    atomic_write(_anchor_file(evidence, target), f"{commit}\n".encode())


def _anchor_file(evidence: EvidenceStore, target: str) -> Path:
    return evidence.root / f"anchor-{target.replace(':', '-')}"
