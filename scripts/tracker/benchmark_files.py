"""What pytest-benchmark wrote of `benchmarks/local` (`--benchmark-json`), as a history: a commit a file."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from scripts.tracker.errors import TrackerError, printable
from scripts.tracker.measured import History
from scripts.tracker.model import Case, Commit, MeasurementStatus, TimingMeasurement, VariantFacts
from scripts.tracker.results import WORD
from scripts.tracker.session_files import Device, TimedCase
from scripts.tracker.store import read_regular

SCHEMA = 1  # of extra_info: benchmarks/local has the same
_LABEL_WIDTH = 20


class _Ours(msgspec.Struct):
    """``extra_info`` of one of our benchmarks. ``what``: a variant or a canary."""

    what: str
    is_canary: bool
    triton: str
    case: TimedCase
    device: Device
    started_at: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    version: str


class _Stats(msgspec.Struct):
    data: list[float]


class _Benchmark(msgspec.Struct):
    stats: _Stats
    extra_info: dict[str, Any] = {}


class _File(msgspec.Struct):
    benchmarks: list[_Benchmark]


def read_benchmark_files(paths: Sequence[Path], variants: dict[str, VariantFacts]) -> History:
    """A history of the files in this order, oldest first. Benchmarks of other projects are left out.

    Raises TrackerError for a file that is damaged or has none of ours.
    """
    history = History(variants=variants)
    for number, path in enumerate(paths):
        found = _read(path)
        label = printable(found[0][0].triton)[:_LABEL_WIDTH]
        if any(label == c.label for c in history.commits):
            label = f"{label[: _LABEL_WIDTH - 4]} ({number + 1})"
        commit = Commit(f"file-{number + 1}", label)
        history.commits.append(commit)
        for ours, samples_s in found:
            if not ours.is_canary and ours.what not in variants:
                history.notes.append(
                    f"{path}: {printable(ours.what)} is no variant of this checkout: left out"
                )
                continue
            into = history.canaries if ours.is_canary else history.timings
            into.append(_timing(commit, ours, samples_s))
            history.machines[ours.device.machine] = {
                "gpu": ours.device.gpu,
                "driver": ours.device.driver,
            }
    return history


def _read(path: Path) -> list[tuple[_Ours, list[float]]]:
    try:
        document = msgspec.convert(json.loads(read_regular(path)), _File)
        ours = [b for b in document.benchmarks if "atomwatch" in b.extra_info]
        if not ours:
            raise ValueError("no benchmark of benchmarks/local is in it")
        if unknown := {str(b.extra_info["atomwatch"]) for b in ours} - {str(SCHEMA)}:
            raise ValueError(f"schema {', '.join(sorted(unknown))[:50]}, this program reads {SCHEMA}")
        found = [(msgspec.convert(b.extra_info, _Ours), b.stats.data) for b in ours]
        for info, samples_s in found:
            if not WORD.fullmatch(info.what):
                raise ValueError(f"{info.what[:50]!r} is no name of a variant")
            if not samples_s or not all(0 < s < math.inf for s in samples_s):
                raise ValueError(f"{info.what} has no samples, or one that is no time")
        if len({(info.what, info.case) for info, _ in found}) < len(found):
            raise ValueError("a benchmark stands in it twice")
    except (OSError, ValueError, TypeError, RecursionError, msgspec.ValidationError) as error:
        raise TrackerError(
            f"{path}: not a file of pytest --benchmark-json that can be judged ({error}): run "
            "python -m pytest benchmarks/local --benchmark-json FILE again"
        ) from error
    return found


def _timing(commit: Commit, ours: _Ours, samples_s: list[float]) -> TimingMeasurement:
    machine = ours.device.machine
    return TimingMeasurement(
        commit=commit.commit,
        variant=ours.what,
        case=Case(ours.case.head_dim, ours.case.causal, ours.case.dtype, ours.case.n_ctx),
        status=MeasurementStatus.OK,
        session=ours.device.session(ours.started_at),  # cases of one session start one by one
        samples_s=tuple(samples_s),
        version=printable(ours.version),
        machine=machine,
        setup=f"{ours.device.power_limit_w:g} W",
    )
