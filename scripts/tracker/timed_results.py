"""GPU time out of asv's result files: the variants' kernels, and the canaries beside them."""

from __future__ import annotations

import ast
import itertools
import math

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Case, MeasurementStatus, TimingMeasurement
from scripts.tracker.results import WORD, Benchmark, CommitResults, remedy

TIMING_BENCHMARK = "attention_backward.AttentionBackward.track_kernel"
CANARY_BENCHMARK = "controls.Canaries.track_seconds"
BACKWARD_BENCHMARK = "attention_backward.AttentionBackward.track_backward"
_SLACK = 1 + 1e-6  # for decimals that were written and read
_PARAMS = ("variant", "n_ctx", "head_dim", "causal", "dtype")  # a canary stands where a variant does


def timing_measurements(results: CommitResults) -> list[TimingMeasurement]:
    """A measurement of GPU time for each case of the kernel series. Raises TrackerError like the above."""
    return _times(results, TIMING_BENCHMARK)


def canary_measurements(results: CommitResults) -> list[TimingMeasurement]:
    """Of work that no Triton commit can change; ``variant`` is the canary's name. Empty without canaries."""
    return _times(results, CANARY_BENCHMARK)


def _times(results: CommitResults, benchmark: str) -> list[TimingMeasurement]:
    row = results.benchmarks.get(benchmark)
    if row is None:
        return []
    if len(row.params) != len(_PARAMS):
        raise TrackerError(f"{results.path}: {len(row.params)} parameters of {benchmark}, expected {_PARAMS}")
    return [
        _timing_measurement(results, row, words, row.values[i], row.samples[i])
        for i, words in enumerate(itertools.product(*row.params))
    ]


def _timing_measurement(
    results: CommitResults,
    row: Benchmark,
    words: tuple[str, ...],
    value: float | None,
    samples: tuple[float, ...] | None,
) -> TimingMeasurement:
    try:
        variant, n_ctx, head_dim, causal, dtype = map(ast.literal_eval, words)
        if not all(isinstance(word, str) and WORD.fullmatch(word) for word in (variant, dtype)):
            raise ValueError("not plain words")
        case = Case(int(head_dim), bool(causal), dtype, int(n_ctx))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise TrackerError(
            f"{results.path}: parameters {str(words)[:200]} are not those of the suite ({error}); "
            f"{remedy(results.path)}"
        ) from error
    if value is None:
        status = MeasurementStatus.FAILED
    else:
        status = MeasurementStatus.SKIPPED if math.isnan(value) else MeasurementStatus.OK
    if status is MeasurementStatus.OK:
        _check_samples(f"{results.path}: the time of {words}", value, samples, remedy(results.path))
    # Without its start nobody knows which others are of its session: it is paired with none.
    started = row.started_at if row.started_at is not None else f"unknown {results.commit}"
    session = f"{results.machine} {started}"
    return TimingMeasurement(
        commit=results.commit,
        variant=str(variant),
        case=case,
        status=status,
        session=session,
        samples_s=samples or (),
        version=row.version,
        machine=results.machine,
        setup=results.setup,
    )


def _check_samples(what: str, value: float | None, samples: tuple[float, ...] | None, cure: str) -> None:
    if value is None or not (samples and all(0 < s < math.inf for s in samples)):
        raise TrackerError(f"{what} has no samples above zero; {cure}")
    low, high = min(samples), max(samples)
    if not low / _SLACK <= value <= high * _SLACK:
        raise TrackerError(
            f"{what}, {value:g} s, lies outside its samples, {low:g} to {high:g} s: one of them was altered, "
            f"or is not in seconds; {cure}"
        )
