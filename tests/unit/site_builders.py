"""A small history with GPU time, its finding and its site; and one in which all outside text is hostile."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from builders import COMMITS, FACTS, HD64, NARROWER, NEW, OLD, TARGET, VERSION, finding, history, measured

from scripts.pages.render import render_site
from scripts.pages.sources import Sources
from scripts.pages.telemetry import Telemetry, TelemetryFiles
from scripts.tracker.errors import TrackerError
from scripts.tracker.history import LandedCommit
from scripts.tracker.measured import History
from scripts.tracker.model import (
    Commit,
    Confirmation,
    Decision,
    Effect,
    Evidence,
    Finding,
    Kernel,
    Leg,
    MeasurementStatus,
    Role,
    Suspect,
    TimingMeasurement,
    VariantFacts,
    Verdict,
)
from scripts.tracker.steps import Judgement
from scripts.tracker.tflops import Issue

HOSTILE = "<script>alert(1)</script> \" onload='x' [/] [bold red]@me[/] & {{ 7 * 7 }} </pre></table>"
TIMED = replace(HD64, n_ctx=2048)
START_MS = 1_796_140_845_000
ISSUE = Issue("issue", "NVIDIA H100", 64, [2048, 4096], {"atomic_add": [76.0, 96.0]})
EFFECT = Effect(0.25, 0.2, 0.3)


def timed(commit: Commit, variant: str, seconds: float) -> TimingMeasurement:
    samples = tuple(seconds * (1 + 0.001 * i) for i in range(5))
    session = f"h200 {START_MS}"
    return TimingMeasurement(
        commit.commit, variant, TIMED, MeasurementStatus.OK, session, samples, VERSION, "h200"
    )


def timed_history() -> History:
    """atomic_add beside inline_asm: level, then twice as slow; and what is needed for TFLOP/s."""
    past = history()
    past.flops = {(2048, 64, True): 1e12}
    for commit, seconds in ((OLD, 1.0), (NEW, 2.0)):
        past.timings += [timed(commit, "atomic_add", seconds), timed(commit, "inline_asm", 1.0)]
    return past


def slower(**changed: Any) -> Finding:
    """The finding of that history, confirmed."""
    leg = Leg("atomic_add", 1.0, 2.0, EFFECT, (("a",), ("b",)))
    answer = Confirmation(
        1, "f", Decision.DIFFERENT, "time", "the interval leaves zero out", EFFECT, (leg,), 2, "H200", "580",
        "2026-12-01T16:00:47+00:00",
    )  # fmt: skip
    found = finding(Verdict.REGRESSION, NARROWER, case=TIMED)
    values = {
        "ratio_before": 1.0,
        "ratio_after": 2.0,
        "change": 1.0,
        "interval": (0.9, 1.1),
        "confirmation": answer,
    }
    return replace(found, **{**values, **changed})


def telemetry() -> TelemetryFiles:
    readings = Telemetry("s/hd64.json", (1980, 1900), (50, 51), (400.5, 500), (True, False), (False, True))
    return {(START_MS, TIMED): readings}


def site(
    findings: list[Finding],
    past: History | None = None,
    seen: TelemetryFiles | None = None,
    expected: list[tuple[Finding, str]] | None = None,
    **sources: Any,
) -> dict[str, str]:
    backward = {(OLD.commit, "atomic_add", 2048, 64): 0.01, (NEW.commit, "store", 2048, 64): 0.02}
    found = Sources(ISSUE, backward, seen or {}, **sources)
    judgement = Judgement(findings, Counter({"pairs compared": 3}), expected=expected or [])
    return dict(render_site(judgement, past or timed_history(), found))


def hostile_site(text: str) -> dict[str, str]:
    """A site in which everything that other machines can write is ``text``."""
    past: Any = timed_history()
    past.commits[:2] = [Commit(OLD.commit, text), Commit(NEW.commit, text)]
    past.variants = {**FACTS, text: VariantFacts(Role.CONTROL, True, text)}
    failure = past.failures[TARGET][COMMITS[2].commit]
    past.failures[TARGET][OLD.commit] = replace(failure, reason=text)
    past.notes.append(text)
    past.problems.append(TrackerError(text))
    past.machines = {"h200": {"gpu": text, "driver": text}}
    past.timings += [replace(timed(NEW, "inline_asm", 1.0), variant=text)]
    past.measurements.append(measured(NEW, text, {text: 4}))
    answer = slower().confirmation
    assert answer is not None
    found = slower(
        before=past.commits[0],
        after=past.commits[1],
        explanation=text,
        excerpt=f"-{text}\n+{text}",
        attribution=text,
        suspects=(Suspect(text, 1, 0.5, text, text, text, text),),
    )
    found = replace(
        found,
        codegen_changes=(replace(NARROWER, meaning=text),),
        confirmation=replace(answer, reason=text, gpu=text, driver=text),
    )
    seen = {(START_MS, TIMED): replace(telemetry()[START_MS, TIMED], file=text)}
    expected = [(replace(found, id="another"), text)]
    landed = {NEW.commit: LandedCommit(NEW.commit, (), datetime.now(UTC), text, ())}
    areas = {"d" * 40: (text,), text: (text,)}
    records = [measured(c, "atomic_add", found=_record(c, text)) for c in past.commits[:2]]
    past.measurements = [m for m in past.measurements if m.variant != "atomic_add"] + records
    return site(
        [found], past, seen, expected, landed=landed, not_applicable=areas, text=lambda _: _code(text)
    )


def _record(commit: Commit, text: str) -> Evidence:
    kernel = Kernel(text, "code", {"ptx": {text: 1}}, {"ptx": f"{text}{commit.commit}"})
    return Evidence(commit.commit, commit.label, VERSION, "atomic_add", "ok", text, (kernel,))


def _code(text: str) -> str:
    return f"red.global.add.f32 [%rd1], %f1, {text};"


def long_history(length: int = 2000) -> History:
    """One spike among many commits, which no page can show all of."""
    past = timed_history()
    past.commits = [Commit(f"{n:040x}", f"{n:07x}") for n in range(length)]
    past.measurements, past.failures = [], {}
    past.timings = [
        timed(commit, variant, 3.0 if (n, variant) == (1234, "atomic_add") else 1.0)
        for n, commit in enumerate(past.commits)
        for variant in ("atomic_add", "inline_asm")
    ]
    return past
