"""expected_changes.toml: changes that somebody decided to live with. Pure, but for reading the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Case, Commit, Finding, Verdict

EXPECTED_FILE = Path(__file__).resolve().parent.parent / "expected_changes.toml"
EXPECTED = "findings that expected_changes.toml quiets"
_Words = Annotated[str, msgspec.Meta(min_length=3, max_length=500)]


class CasePattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which cases; what is not named is any."""

    head_dim: int | None = None
    causal: bool | None = None
    dtype: str | None = None
    n_ctx: int | None = None

    def fits(self, case: Case) -> bool:
        """A finding about code has no n_ctx, so a pattern with one is not about it."""
        asked = msgspec.structs.asdict(self).items()
        return all(value is None or value == getattr(case, name) for name, value in asked)


class ExpectedChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. ``after`` and ``until``: labels or hashes; the change lies behind the first, up to the
    second, so comparisons from there on have the new state as their baseline."""

    variant: str
    after: str
    until: str
    reason: _Words
    who: _Words
    case: CasePattern = CasePattern()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    change: list[ExpectedChange] = []


@dataclass(frozen=True, slots=True)
class Quieted:
    """Findings that stay, those that an entry quiets, and entries that quiet nothing any more."""

    left: list[Finding]
    quiet: list[tuple[Finding, ExpectedChange]]
    idle: list[ExpectedChange]


def read_expected(path: Path = EXPECTED_FILE) -> list[ExpectedChange]:
    """Without the file nothing is expected. Raises TrackerError naming the file and the entry."""
    if not path.exists():
        return []
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_File).change
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TrackerError(f"{path}: {error}; mend the entry, or restore the file from git") from error


def quiet(
    findings: list[Finding], changes: list[ExpectedChange], commits: list[Commit], path: Path = EXPECTED_FILE
) -> Quieted:
    """Take out what is expected. Only findings whose whole step lies in the entry's range are: a wider step
    may hold something else. Raises TrackerError for a range that is none."""
    ranges = [(change, *_range(change, commits, path)) for change in changes]
    order = {c.commit: i for i, c in enumerate(commits)}
    left: list[Finding] = []
    found: list[tuple[Finding, ExpectedChange]] = []
    for finding in findings:
        before, after = order.get(finding.before.commit, -1), order.get(finding.after.commit, len(order))
        by = next(
            (c for c, first, last in ranges if first <= before and after <= last and _is_about(c, finding)),
            None,
        )
        if by is None:
            left.append(finding)
        else:
            found.append((finding, by))
    idle = [change for change in changes if all(change is not by for _, by in found)]
    return Quieted(left, found, idle)


def _is_about(change: ExpectedChange, finding: Finding) -> bool:
    """An entry is about the variant that moved. A variant that does not compile any more is never meant."""
    moved = finding.reference if finding.verdict is Verdict.REFERENCE_MOVED else finding.candidate
    is_lost = finding.verdict is Verdict.NO_VALID_DATA
    return change.variant == moved and change.case.fits(finding.case) and not is_lost


def _range(change: ExpectedChange, commits: list[Commit], path: Path) -> tuple[int, int]:
    ends = []
    for word in (change.after, change.until):
        places = [i for i, c in enumerate(commits) if word in (c.label, c.commit)]
        if len(places) != 1:
            why = "is no commit of the history" if not places else "is more than one commit"
            raise TrackerError(f"{path}: {word!r} {why}; name it by label or full hash")
        ends += places
    if ends[0] >= ends[1]:
        raise TrackerError(f"{path}: {change.after} does not come before {change.until}; turn them around")
    return ends[0], ends[1]
