"""From what was measured to a judgement: code, time, stages, suspects, each by its own pure part."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from scripts.tracker.attribute import NO_HISTORY, UNKNOWN, name_suspects
from scripts.tracker.attribution_rules import read_rules
from scripts.tracker.codegen_diff import judge_codegen
from scripts.tracker.confirmation import with_confirmations
from scripts.tracker.epochs import judge_epochs, split_epochs
from scripts.tracker.errors import TrackerError
from scripts.tracker.expected import EXPECTED, quiet, read_expected
from scripts.tracker.measured import History
from scripts.tracker.model import Case, MeasurementStatus, Role
from scripts.tracker.policy import POLICY_FILE, Policy, read_policy
from scripts.tracker.pull_requests import SquashSuffix
from scripts.tracker.series import Identities, build_panels
from scripts.tracker.shared_time import codes_of, commits_with_time
from scripts.tracker.stages import StageComparer, with_stages
from scripts.tracker.steps import Judgement
from scripts.tracker.timing_diff import judge_timing

# The only kind of GPU that times are taken on so far.
TIMED_TARGET = "cuda:90"


def judge(history: History) -> Judgement:
    """Findings of everything measured, each with the stage that did it: texts are read for that alone.
    Raises TrackerError if there is nothing to judge."""
    if not history.measurements and not history.timings:
        remedy = "run make track first (commits of main: make follow)"
        if history.problems:
            remedy = "; ".join(map(str, history.problems))
        raise TrackerError(f"nothing is measured yet: {remedy}")
    if not history.variants or not history.commits:
        reason = "; ".join(map(str, history.problems)) or "run make track again"
        raise TrackerError(f"roles and order are unknown without variants.json and commits.json: {reason}")
    roles = {variant: facts.role for variant, facts in history.variants.items()}
    policy = read_policy()
    known = {name for m in history.measurements for name in m.metrics}
    unknown = [rule.metric for rule in policy.codegen.rule if rule.metric not in known]
    if known and unknown:
        history.notes.append(f"{POLICY_FILE.name} asks for what no result has: {', '.join(unknown)}")
    of_code = judge_codegen(history.measurements, history.commits, roles, policy.codegen)
    compiled = {
        (m.commit, m.variant, m.case)
        for m in history.measurements
        if m.target == TIMED_TARGET and m.status is MeasurementStatus.OK
    }
    _note_canaries(history)
    _note_without_time(history)
    judgement = _judge_time(history, roles, policy, of_code, compiled)
    _quiet_expected(judgement, history)
    stages = StageComparer(lambda digest: _text(digest, history), _kept_reports(history))
    judgement.findings = with_stages(judgement.findings, history.measurements, stages)
    _name_suspects(judgement, history)
    identities = _identities(history)
    judgement.findings = with_confirmations(
        judgement.findings, history.confirmations, lambda *key: identities.get(key)
    )
    return judgement


def _quiet_expected(judgement: Judgement, history: History) -> None:
    found = quiet(judgement.findings, read_expected(), history.commits)
    judgement.findings = found.left
    judgement.expected = [(finding, change.reason) for finding, change in found.quiet]
    judgement.counts[EXPECTED] += len(found.quiet)
    judgement.counts += Counter()
    history.notes += [f"expected_changes.toml: {c.variant}, {c.until}: quiets nothing" for c in found.idle]


def _identities(history: History) -> Identities:
    """{(commit, variant, case): identities of its kernels} on the timed target."""
    return {
        (m.commit, m.variant, m.case): m.evidence.identity
        for m in history.measurements
        if m.target == TIMED_TARGET and m.evidence is not None and m.evidence.identity
    }


def _judge_time(
    history: History,
    roles: dict[str, Role],
    policy: Policy,
    of_code: Judgement,
    compiled: set[tuple[str, str, Case]],
) -> Judgement:
    """Few commits far apart by their neighbours, a history of consecutive ones as series."""
    codes = codes_of(history.measurements, TIMED_TARGET)
    timed = commits_with_time(history.timings, codes)
    of_timed = [m for m in history.measurements if m.commit in timed and m.target == TIMED_TARGET]
    between_timed = judge_codegen(of_timed, history.commits, roles, policy.codegen).findings
    roles = roles | {t.variant: Role.CANARY for t in history.canaries}
    _, apart = split_epochs(history.timings, policy.detection)
    judged = judge_timing(
        apart + history.canaries,
        history.commits,
        roles,
        policy.timing,
        TIMED_TARGET,
        of_code,
        compiled,
        between_timed,
        codes,
    )
    panels = build_panels(
        history.timings, history.canaries, history.commits, TIMED_TARGET, _identities(history), judged.counts
    )
    return judge_epochs(panels, roles, policy.detection, judged, history.commits)


def _note_without_time(history: History) -> None:
    """Commits between timed ones whose code is known and whose time is not: no word of their time is lost.
    And those that share the time of equal kernels: neither timed nor without time."""
    order = [c.commit for c in history.commits]
    own = {t.commit for t in history.timings}
    timed = commits_with_time(history.timings, codes_of(history.measurements, TIMED_TARGET))
    places = [i for i, commit in enumerate(order) if commit in own]
    compiled = {m.commit for m in history.measurements if m.target == TIMED_TARGET}
    if places:
        inside = order[places[0] : places[-1] + 1]
        bare = [history.label(c) for c in inside if c in compiled and c not in timed]
        if bare:
            history.notes.append(f"compiled, but without GPU time: {', '.join(bare)}")
    if shared := [c for c in order if c in timed - own]:
        history.notes.append(f"{len(shared)} commits share the GPU time of kernels equal to theirs")


def _note_canaries(history: History) -> None:
    """Absent canaries are said: without them nobody can tell a slower machine from a slower compiler."""
    beside = {(t.commit, t.session) for t in history.canaries if t.status is MeasurementStatus.OK}
    bare = {t.commit for t in history.timings if (t.commit, t.session) not in beside}
    if bare:
        history.notes.append(
            f"{len(bare)} commits were timed without canaries: where all variants moved between two of their "
            "sessions, machine and compiler cannot be told apart"
        )


def _name_suspects(judgement: Judgement, history: History) -> None:
    if judgement.findings and history.triton is None:
        history.notes.append(NO_HISTORY)
    measured = {m.commit for m in history.measurements}
    judgement.findings = name_suspects(
        judgement.findings, history.triton, measured, read_rules(), SquashSuffix()
    )
    if history.triton is not None:
        unknown = Counter(f.attribution for f in judgement.findings if f.attribution.startswith(UNKNOWN))
        more = f" (and {len(unknown) - 1} more reasons: scripts.attribute)" if len(unknown) > 1 else ""
        for reason in list(unknown)[:1]:
            history.notes.append(f"{unknown.total()} findings, {reason}{more}")


def _kept_reports(history: History) -> Path | None:
    """Beside the store: reading and comparing its texts takes seconds, and they never change."""
    return history.evidence.root.parent / "stages" if history.evidence else None


def _text(digest: str, history: History) -> str | None:
    """A stage's text; None, with the problem noted, if the store cannot give it."""
    try:
        return history.evidence.text(digest) if history.evidence else None
    except TrackerError as error:
        history.problems.append(error)
        return None
