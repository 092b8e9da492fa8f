"""How far sessions of identical kernels scatter: the basis of the thresholds in policy.toml. Pure.

Each session is a fresh process that timed two commits, and the second of them twice (A/A). The value of a
session is the Hodges-Lehmann estimate of its blocks' logarithms, as in `timing`; the spread is the standard
deviation of that value over sessions, as a root mean square over variants (and commits).
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.session_files import Block, Device, SessionFile
from scripts.tracker.timing import hodges_lehmann

SCHEMA = 1  # of the JSON
_Z95 = 1.96
REFERENCE = "inline_asm"


@dataclass(frozen=True, slots=True)
class Noise:
    """Spreads of one shape, as standard deviations of logarithms (0.01 is 1 %).

    ``block``: of the ratio to inline_asm within a session, block to block. ``own``: one kernel's time.
    ``ratio``: to inline_asm. ``paired``: commit over commit in one session; ``apart``: the same from two
    sessions. ``same``: one commit over itself in one session (A/A), ``same_bias`` its mean. ``canary``: work
    that Triton has no part in.
    """

    head_dim: int
    n_ctx: int
    sessions: int
    block: float
    own: float
    ratio: float
    paired: float
    apart: float
    same: float
    same_bias: float
    canary: float

    def half_width(self, sessions: int) -> float:
        """Of the 95 % interval of commit over commit, with so many sessions that hold both."""
        return _Z95 * self.paired / math.sqrt(sessions)


def is_for_noise(document: SessionFile) -> bool:
    """Whether a session holds two commits and the second of them again, and enough valid blocks."""
    commits = [commit for commit, _ in dict.fromkeys((s.commit, s.label) for s in document.subjects)]
    is_pair_and_again = len(commits) == 3 and commits[0] != commits[1] == commits[2]
    return is_pair_and_again and document.status == "ok"


def measure_noise(documents: list[SessionFile]) -> list[Noise]:
    """One row a shape, of sessions that are `is_for_noise`. Raises TrackerError if they are too few."""
    by_shape: dict[tuple[int, int], list[SessionFile]] = defaultdict(list)
    for document in documents:
        by_shape[document.case.head_dim, document.case.n_ctx].append(document)
    return [_noise(shape, found) for shape, found in sorted(by_shape.items())]


def _noise(shape: tuple[int, int], sessions: list[SessionFile]) -> Noise:
    if len(sessions) < 3:
        raise TrackerError(f"n_ctx {shape[1]}: {len(sessions)} sessions; a spread needs three or more")
    logs = [_log_samples(session) for session in sessions]
    keys = sorted(set.intersection(*(set(found) for found in logs)))
    labels = list(dict.fromkeys(s.label for s in sessions[0].subjects))
    before, after, again = labels
    variants = sorted({variant for _, variant in keys if all((label, variant) in keys for label in labels)})
    others = [v for v in variants if v != REFERENCE]
    if REFERENCE not in variants or not others:
        raise TrackerError(f"n_ctx {shape[1]}: the sessions share no commits with {REFERENCE} and a variant")

    def spread(value: Callable[[dict[tuple[str, str], list[float]]], float]) -> float:
        return statistics.stdev(value(found) for found in logs)

    def difference(a: tuple[str, str], b: tuple[str, str]) -> Callable[..., float]:
        return lambda found: hodges_lehmann([x - y for x, y in zip(found[a], found[b], strict=True)])

    ratios = [difference((after, v), (after, REFERENCE)) for v in others]
    apart = []
    for v in variants:
        values = [
            hodges_lehmann(mine[after, v]) - hodges_lehmann(theirs[before, v])
            for mine, theirs in zip(logs, logs[1:] + logs[:1], strict=True)
        ]
        apart.append(statistics.stdev(values))
    same = [difference((after, v), (again, v)) for v in variants]
    timed = [{name for name, canary in s.canaries.items() if canary.kernel_s} for s in sessions]
    canaries = [
        [
            hodges_lehmann([math.log(t) for t in s.valid(s.canaries[name].kernel_s, "kernel")])
            for s in sessions
        ]
        for name in sorted(set.intersection(*timed))
    ]
    return Noise(
        head_dim=shape[0],
        n_ctx=shape[1],
        sessions=len(sessions),
        block=_rms(
            statistics.stdev(x - y for x, y in zip(found[after, v], found[after, REFERENCE], strict=True))
            for found in logs
            for v in others
        ),
        own=_rms(statistics.stdev(hodges_lehmann(found[after, v]) for found in logs) for v in variants),
        ratio=_rms(spread(ratio) for ratio in ratios),
        paired=_rms(spread(difference((after, v), (before, v))) for v in variants),
        apart=_rms(apart),
        same=_rms(spread(pair) for pair in same),
        same_bias=statistics.mean(pair(found) for pair in same for found in logs),
        canary=_rms(statistics.stdev(values) for values in canaries),
    )


def _log_samples(session: SessionFile) -> dict[tuple[str, str], list[float]]:
    """{(label, variant): log seconds, block by block} of what was timed by itself."""
    return {
        (s.label, s.variant): [math.log(t) for t in session.samples(s, "kernel")]
        for s in session.subjects
        if s.status == "ok" and s.shared_with is None
    }


@dataclass(frozen=True, slots=True)
class PowerCap:
    """What a software power cap does, in the sessions of one shape that have blocks of both kinds: the mean
    logarithm in capped blocks minus that in the others.

    ``ratio``: of variants to inline_asm, the largest of any variant (mean over commits and sessions).
    ``commits``: of a commit to the one before it, likewise.
    """

    head_dim: int
    n_ctx: int
    capped_blocks: int
    blocks: int
    ratio: float
    commits: float


def power_cap(documents: list[SessionFile]) -> list[PowerCap]:
    """One row a shape; shapes whose blocks are all of one kind have none."""
    by_shape: dict[tuple[int, int], list[SessionFile]] = defaultdict(list)
    for document in documents:
        if len({b.is_capped for b in _kernel_blocks(document)}) == 2:
            by_shape[document.case.head_dim, document.case.n_ctx].append(document)
    return [_power_cap(shape, found) for shape, found in sorted(by_shape.items())]


def _power_cap(shape: tuple[int, int], sessions: list[SessionFile]) -> PowerCap:
    ratios: dict[str, list[float]] = defaultdict(list)
    commits: dict[str, list[float]] = defaultdict(list)
    kinds = [block.is_capped for session in sessions for block in _kernel_blocks(session)]
    for session in sessions:
        logs = _log_samples(session)
        capped = [block.is_capped for block in _kernel_blocks(session)]
        labels = list(dict.fromkeys(label for label, _ in logs))
        earlier = dict(zip(labels[1:], labels, strict=False))
        for label, variant in logs:
            if variant != REFERENCE and (label, REFERENCE) in logs:
                ratios[variant].append(_shift(logs[label, variant], logs[label, REFERENCE], capped))
            if (before := (earlier.get(label, ""), variant)) in logs:
                commits[variant].append(_shift(logs[label, variant], logs[before], capped))
    return PowerCap(*shape, sum(kinds), len(kinds), _largest(ratios), _largest(commits))


def _shift(logs: list[float], other: list[float], capped: list[bool]) -> float:
    by_kind: dict[bool, list[float]] = {True: [], False: []}
    for is_capped, a, b in zip(capped, logs, other, strict=True):
        by_kind[is_capped].append(a - b)
    return statistics.mean(by_kind[True]) - statistics.mean(by_kind[False])


def _largest(shifts: dict[str, list[float]]) -> float:
    return max((statistics.mean(found) for found in shifts.values()), key=abs, default=math.nan)


def _kernel_blocks(session: SessionFile) -> list[Block]:
    return [block for block in session.blocks if block.series == "kernel" and block.valid]


def _rms(values: Iterable[float]) -> float:
    found = list(values)
    return math.sqrt(statistics.mean(v * v for v in found)) if found else math.nan


def noise_json(device: Device, rows: list[Noise], caps: list[PowerCap]) -> str:
    """{"schema": 1, "device", "noise": [as `Noise`], "power_cap": [as `PowerCap`]}; spreads are shares."""
    document = {"schema": SCHEMA, "device": device, "noise": rows, "power_cap": caps}
    return msgspec.json.format(msgspec.json.encode(document)).decode()
