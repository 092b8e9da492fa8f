"""What `replay` found, for people; and what the recorded results can say about false alarms."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise

from rich import box
from rich.console import Console
from rich.table import Table

from scripts.tracker.judge import judge
from scripts.tracker.measured import History, load_history
from scripts.tracker.model import Case, MeasurementStatus, TimingMeasurement
from scripts.tracker.replay import DELAYS, Score
from scripts.tracker.speed import Speed
from scripts.tracker.steps import pairs
from scripts.tracker.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded on a GPU, judged. ``same_code``: pairs of neighbours whose kernels are byte for byte
    the same on both sides and were timed anew, so that a finding about them is false; ``false_alarms``:
    how many of them have one."""

    commits: int
    sessions: int
    findings: dict[str, int]
    same_code: int
    false_alarms: int


def recorded_facts(workspace: Workspace) -> Recorded | None:
    """None if nothing is recorded. Raises TrackerError like `judge`."""
    history = load_history(workspace)
    if not history.timings:
        return None
    findings = judge(history).findings
    accused = {(f.candidate, f.reference, f.case, f.after.commit) for f in findings if "timing" in f.evidence}
    same = same_code_pairs(history)
    return Recorded(
        commits=len({t.commit for t in history.timings}),
        sessions=len({t.session for t in history.timings}),
        findings=dict(Counter(f.verdict.value for f in findings)),
        same_code=len(same),
        false_alarms=sum(key in accused for key in same),
    )


def same_code_pairs(history: History) -> list[tuple[str, str, Case, str]]:
    """(candidate, reference, case, newer commit) of A/A pairs among neighbours."""
    code = {
        (m.commit, m.variant, m.case): m.evidence.identity
        for m in history.measurements
        if m.evidence is not None and m.evidence.identity
    }
    order = {c.commit: i for i, c in enumerate(history.commits)}
    times: dict[tuple[str, Case], dict[str, TimingMeasurement]] = defaultdict(dict)
    for t in history.timings:
        if t.status is MeasurementStatus.OK and t.commit in order:
            times[t.epoch_key, t.case][f"{order[t.commit]:08} {t.variant}"] = t
    found = []
    for (_, case), of in times.items():
        bare = Case(case.head_dim, case.causal, case.dtype)
        commits = sorted({t.commit for t in of.values()}, key=order.__getitem__)
        for before, after in pairwise(commits):
            for pair in pairs({v: f.role for v, f in history.variants.items()}):
                sides = [[of.get(f"{order[c]:08} {v}") for v in pair] for c in (before, after)]
                codes = [[code.get((c, v, bare)) for v in pair] for c in (before, after)]
                anew = [a.samples_s != b.samples_s for a, b in zip(*sides, strict=True) if a and b]
                if len(anew) == len(pair) and all(anew) and codes[0] == codes[1] and None not in codes[0]:
                    found.append((*pair, case, after))
    return found


def print_score(console: Console, score: Score, recorded: Recorded | None) -> None:
    """Tables; shares in hundredths."""
    console.print(
        f"Simulated: {score.commits} commits, {score.series} series without a change. False alarms: "
        f"{score.false_alarms:.2f} for 1000 commits of a series; suspicions that ask for another session: "
        f"{score.pending:.1f}.",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD, title="Steps of the candidate", title_justify="left")
    heads = ["step", "series", *(f"found within {d}" for d in DELAYS), "precision", "median delay"]
    for head in heads:
        table.add_column(head, justify="right")
    for r in score.recalls:
        precision = "none found" if r.precision is None else f"{r.precision:.2f}"
        delay = "none found" if r.delay is None else f"{r.delay:g}"
        shares = [f"{r.within[d]:.2f}" for d in DELAYS]
        table.add_row(f"{r.size:.0%}", str(r.series), *shares, precision, delay)
    console.print(table, highlight=False)
    for kind, said in score.verdicts.items():
        words = ", ".join(f"{verdict} {share:.0%}" for verdict, share in said.items())
        console.print(f"{kind}, 20 %: {words}", highlight=False)
    if recorded is None:
        console.print("Nothing is recorded here.")
        return
    words = ", ".join(f"{verdict} {count}" for verdict, count in sorted(recorded.findings.items())) or "none"
    console.print(
        f"\nRecorded: {recorded.commits} commits in {recorded.sessions} sessions; findings: {words}. "
        f"Pairs of neighbours with the same machine code on both sides, timed anew: {recorded.same_code}; "
        f"findings about them, which are false: {recorded.false_alarms}.",
        highlight=False,
    )


def print_speed(console: Console, speed: Speed) -> None:
    """One line each."""
    size = f"{speed.commits} commits, {speed.cases} cases, {speed.variants} variants"
    seconds = f"detect {speed.detect_s:.2f} s, write the findings {speed.write_s:.2f} s"
    console.print(
        f"{size}: {speed.findings} findings.\n"
        f"  {seconds} (CPU {speed.cpu_s:.2f} s), peak memory with the history {speed.peak_mib:.0f} MiB",
        highlight=False,
    )
    if speed.asv_publish_s is not None:
        console.print(f"  asv publish of the same values: {speed.asv_publish_s:.1f} s", highlight=False)
