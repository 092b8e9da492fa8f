"""GPU time over consecutive commits as columns: one panel an epoch. Pure.

An epoch is a span in which numbers may be compared: one machine, GPU, driver, power limit and version of
the method. Commits stand in first-parent order; what is not in that order (a branch pushed away) is left
out and counted, and what was not measured widens the range between its neighbours.

The unit is the session, never the launch: all samples of one session make one value, and a commit that was
measured again has the median of its sessions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scripts.tracker.model import Case, Commit, MeasurementStatus, TimingMeasurement

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Identities = dict[tuple[str, str, Case], tuple[str, ...]]
ORPHANED = "timed commits that are not in the history (pushed away, or of a branch): not compared"
# (case, point) to the samples of each variant.
_Samples = dict[tuple[int, int], dict[str, list[float]]]
UNKNOWN_CODE = -1
_MOST_PAIRED = 500  # a session has tens of blocks


@dataclass(frozen=True, slots=True)
class Panel:
    """One epoch. ``log_s``: natural logarithm of seconds, [case, variant, point], NaN without valid data.

    A point is one session of one commit: ``commit_of`` is its place in ``commits``, and rises.
    ``session_of``: sessions by number. ``positions``: of each commit in the whole history. ``codes``:
    [case, variant, commit], equal numbers for equal kernel identities, UNKNOWN_CODE without evidence.
    ``listed``: [case, variant, commit], False where the suite did not ask for it (another name, another
    parameter), which is not the same as no valid data. Canaries are variants here, named in ``canaries``.
    """

    epoch: str
    target: str
    commits: tuple[Commit, ...]
    positions: IntArray
    cases: tuple[Case, ...]
    variants: tuple[str, ...]
    canaries: tuple[str, ...]
    log_s: FloatArray
    commit_of: IntArray
    session_of: IntArray
    codes: IntArray
    listed: NDArray[np.bool_]

    def by_commit(self, values: FloatArray) -> FloatArray:
        """[..., point] to [..., commit]: the median over a commit's sessions, of those that are valid."""
        counts = np.bincount(self.commit_of, minlength=len(self.commits))
        if len(self.commit_of) == len(self.commits):
            return values
        starts = np.cumsum(counts) - counts
        out = np.full((*values.shape[:-1], len(self.commits)), np.nan)
        for count in np.unique(counts[counts > 0]):
            where = np.flatnonzero(counts == count)
            out[..., where] = median(values[..., starts[where][:, None] + np.arange(count)])
        return out

    def variant(self, name: str) -> int:
        return self.variants.index(name)

    def canary_level(self) -> FloatArray:
        """[case, point]: how far the canaries stand from their usual times; NaN where none was measured.

        Each from its own median before the mean, because they take different times: else one that is missing
        in a session would look like a change of the machine.
        """
        rows = self.log_s[:, [self.variant(name) for name in self.canaries], :]
        rows = rows - median(rows)[..., None]
        valid = np.isfinite(rows)
        counts = valid.sum(axis=1)
        total = np.where(valid, rows, 0.0).sum(axis=1)
        return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)


def median(values: FloatArray) -> FloatArray:
    """Median along the last axis of what is valid; NaN if nothing is."""
    ordered = np.sort(values, axis=-1)  # NaN comes last
    count = np.isfinite(ordered).sum(axis=-1)
    upper = np.take_along_axis(ordered, (count // 2 % ordered.shape[-1])[..., None], -1)[..., 0]
    lower = np.take_along_axis(ordered, np.maximum((count - 1) // 2, 0)[..., None], -1)[..., 0]
    return np.asarray(np.where(count > 0, (lower + upper) / 2, np.nan), dtype=np.float64)


def middle(values: FloatArray) -> float:
    """The same of one short row; numpy's own median takes ten times as long for those."""
    ordered = np.sort(values)  # NaN comes last
    count = int(np.isfinite(ordered).sum())
    return float(ordered[(count - 1) // 2] + ordered[count // 2]) / 2 if count else float("nan")


def hodges_lehmann(values: FloatArray) -> FloatArray:
    """Median of all pairwise means along the last axis, like `timing.hodges_lehmann`; of so many values that
    their pairs would fill the memory, the plain median."""
    if values.shape[-1] > _MOST_PAIRED:
        return np.asarray(np.median(values, axis=-1), dtype=np.float64)
    first, second = np.triu_indices(values.shape[-1])
    return np.asarray(np.median((values[..., first] + values[..., second]) / 2, axis=-1), dtype=np.float64)


def build_panels(
    timings: list[TimingMeasurement],
    canaries: list[TimingMeasurement],
    commits: list[Commit],
    target: str,
    identities: Identities,
    counts: Counter[str],
) -> list[Panel]:
    """A panel an epoch, in the order of their first commits.

    ``canaries``: of the same sessions. ``identities``: of (commit, variant, case without n_ctx),
    where the evidence store has them.
    """
    place = {c.commit: i for i, c in enumerate(commits)}
    strays = {t.commit for t in timings if t.commit not in place}
    if strays:
        counts[ORPHANED] += len(strays)
    names = {t.variant for t in canaries}
    epochs: dict[str, list[TimingMeasurement]] = defaultdict(list)
    for t in (*timings, *canaries):
        if t.commit in place:
            epochs[t.epoch_key].append(t)
    own = {t.epoch_key for t in timings if t.commit in place}
    panels = [
        _panel(epoch, target, found, names, commits, place, identities)
        for epoch, found in epochs.items()
        if epoch in own
    ]
    return sorted(panels, key=lambda panel: int(panel.positions[0]))


def _panel(
    epoch: str,
    target: str,
    timings: list[TimingMeasurement],
    canaries: set[str],
    commits: list[Commit],
    place: dict[str, int],
    identities: Identities,
) -> Panel:
    positions = sorted({place[t.commit] for t in timings})
    kept = tuple(commits[i] for i in positions)
    column = {c.commit: i for i, c in enumerate(kept)}
    points = sorted({(column[t.commit], t.session) for t in timings})
    point = {key: i for i, key in enumerate(points)}
    cases = tuple(
        sorted({t.case for t in timings}, key=lambda c: (c.head_dim, c.causal, c.dtype, c.n_ctx or 0))
    )
    row = {case: i for i, case in enumerate(cases)}
    variants = tuple(sorted({t.variant for t in timings}))
    layer = {variant: i for i, variant in enumerate(variants)}
    listed = np.zeros((len(cases), len(variants), len(kept)), dtype=np.bool_)
    samples: _Samples = defaultdict(lambda: defaultdict(list))
    for t in timings:
        listed[row[t.case], layer[t.variant], column[t.commit]] = True
        valid = t.status is MeasurementStatus.OK and all(0 < s < float("inf") for s in t.samples_s)
        if valid and t.samples_s:
            # What one session holds twice is one session still.
            samples[row[t.case], point[column[t.commit], t.session]][t.variant] += t.samples_s
    sessions = {name: i for i, name in enumerate(dict.fromkeys(session for _, session in points))}
    return Panel(
        epoch=epoch,
        target=target,
        commits=kept,
        positions=np.array(positions, dtype=np.int64),
        cases=cases,
        variants=variants,
        canaries=tuple(v for v in variants if v in canaries),
        log_s=_log_seconds(samples, (len(cases), len(variants), len(points)), layer),
        commit_of=np.array([commit for commit, _ in points], dtype=np.int64),
        session_of=np.array([sessions[session] for _, session in points], dtype=np.int64),
        codes=_codes(kept, cases, variants, identities),
        listed=listed,
    )


def _log_seconds(samples: _Samples, shape: tuple[int, int, int], layer: dict[str, int]) -> FloatArray:
    log_s = np.full(shape, np.nan)
    for (case, point), of_session in samples.items():
        for variant, value in session_values(of_session).items():
            log_s[case, layer[variant], point] = value
    return log_s


def session_values(samples: dict[str, list[float]]) -> dict[str, float]:
    """One value a variant out of one session's samples, so that differences are those of the same blocks.

    What all variants of a block share (clocks, temperature) is taken out of each block before the
    Hodges-Lehmann centre, and its own centre is put back.
    """
    length = Counter(len(s) for s in samples.values()).most_common(1)[0][0]
    aligned = sorted(v for v, s in samples.items() if len(s) == length)
    logs = np.log(np.array([samples[v] for v in aligned]))
    shared = logs.mean(axis=0)
    centres = hodges_lehmann(logs - shared) + hodges_lehmann(shared)
    values = dict(zip(aligned, centres.tolist(), strict=True))
    # Other blocks cannot be aligned: the plain centre.
    others = {v: np.log(np.array(s)) for v, s in samples.items() if len(s) != length}
    return values | {v: float(hodges_lehmann(s)) for v, s in others.items()}


def _codes(
    commits: tuple[Commit, ...], cases: tuple[Case, ...], variants: tuple[str, ...], identities: Identities
) -> IntArray:
    numbers: dict[tuple[str, ...], int] = {}
    codes = np.full((len(cases), len(variants), len(commits)), UNKNOWN_CODE, dtype=np.int64)
    for i, case in enumerate(cases):
        bare = Case(case.head_dim, case.causal, case.dtype)
        for j, variant in enumerate(variants):
            for k, commit in enumerate(commits):
                identity = identities.get((commit.commit, variant, bare))
                if identity is not None:
                    codes[i, j, k] = numbers.setdefault(identity, len(numbers))
    return codes
