"""Every verdict about generated code, from values to findings."""

import pytest
from builders import COMMITS, HD64, HD128, NEW, OLD, ROLES, TARGET, evidence, measured

from scripts.tracker.codegen_diff import (
    ABSENT,
    COMPARED,
    IRRELEVANT,
    SAME_CODE,
    judge_codegen,
)
from scripts.tracker.codegen_diff import (
    NEW as MEASURED_FIRST,
)
from scripts.tracker.model import (
    CodegenMeasurement,
    Commit,
    Evidence,
    Finding,
    MeasurementStatus,
    Role,
    Verdict,
)
from scripts.tracker.policy import CodegenPolicy, CodegenRule
from scripts.tracker.steps import Judgement

POLICY = CodegenPolicy(
    (
        CodegenRule("width", "lower", True, 0.0, "narrower", "wider", "heaviest"),
        CodegenRule("fences", "higher", True, 0.0, "more fences", "fewer fences", ""),
        CodegenRule("loop", "higher", False, 0.10, "longer loop", "shorter loop", ""),
    )
)
PAIR = {"atomic_add": {"width": 4, "fences": 0, "loop": 1000}, "inline_asm": {"width": 1, "loop": 1000}}
WITH_CONTROL = {**PAIR, "none": {"loop": 1000}}
NOT_THERE = [MeasurementStatus.FAILED, MeasurementStatus.SKIPPED, None]
Table = dict[str, dict[str, float]]


def at(commit: Commit, table: Table, **changes: dict[str, float]) -> list[CodegenMeasurement]:
    """Measurements of one commit: a table with some metrics of some variants changed."""
    return [measured(commit, name, {**metrics, **changes.get(name, {})}) for name, metrics in table.items()]


def judged(*measurements: list[CodegenMeasurement]) -> Judgement:
    return judge_codegen([m for side in measurements for m in side], COMMITS, ROLES, POLICY)


def step(table: Table = PAIR, **changes: dict[str, float]) -> Judgement:
    return judged(at(OLD, table), at(NEW, table, **changes))


def only(judgement: Judgement) -> Finding:
    """The one finding, which is against inline_asm (`store` is not measured here)."""
    [finding] = judgement.findings
    assert (finding.candidate, finding.reference) == ("atomic_add", "inline_asm")
    return finding


def test_narrower_is_a_regression() -> None:
    finding = only(step(atomic_add={"width": 1}))
    assert finding.verdict is Verdict.REGRESSION
    [change] = finding.codegen_changes
    assert (change.variant, change.metric, change.before, change.after) == ("atomic_add", "width", 4, 1)
    assert "narrower (width 4 -> 1)" in finding.explanation
    assert "inline_asm: nothing that matters changed." in finding.explanation
    assert (finding.before, finding.after, finding.case, finding.target) == (OLD, NEW, HD64, TARGET)


def test_wider_is_an_improvement() -> None:
    finding = only(step(atomic_add={"width": 8}))
    assert finding.verdict is Verdict.IMPROVEMENT
    assert finding.codegen_changes[0].meaning == "wider"


@pytest.mark.parametrize("width", [0.5, 2])
def test_a_reference_that_moves_alone_is_not_the_candidates_change(width: float) -> None:
    finding = only(step(inline_asm={"width": width}))
    assert finding.verdict is Verdict.REFERENCE_MOVED
    assert [c.variant for c in finding.codegen_changes] == ["inline_asm"]


def test_the_candidates_own_change_outweighs_the_references() -> None:
    assert only(step(atomic_add={"fences": 8}, inline_asm={"width": 2})).verdict is Verdict.REGRESSION


def test_what_the_control_shows_too_is_the_compilers() -> None:
    longer = {"loop": 1500.0}
    finding = only(step(WITH_CONTROL, atomic_add=longer, inline_asm=longer, none=longer))
    assert finding.verdict is Verdict.COMPILER_WIDE


@pytest.mark.parametrize(
    ("loop", "theirs", "verdict"),
    [(1500, 1500, Verdict.REGRESSION), (500, 500, Verdict.IMPROVEMENT), (1500, 500, Verdict.REGRESSION)],
)
def test_both_moved_but_the_control_did_not(loop: float, theirs: float, verdict: Verdict) -> None:
    changes = {"atomic_add": {"loop": loop}, "inline_asm": {"loop": theirs}}
    assert only(step(WITH_CONTROL, **changes)).verdict is verdict


def test_9_9_percent_beside_10_1_percent_is_the_same_change() -> None:
    changes = {"atomic_add": {"loop": 1101.0}, "inline_asm": {"loop": 1099.0}, "none": {"loop": 1100.0}}
    assert only(step(WITH_CONTROL, **changes)).verdict is Verdict.COMPILER_WIDE
    changes["none"] = {"loop": 1000.0}
    assert only(step(WITH_CONTROL, **changes)).verdict is Verdict.REGRESSION
    # Turned round: the candidate is below the threshold, and the reference no further than it is.
    assert step(WITH_CONTROL, atomic_add={"loop": 1099.0}, inline_asm={"loop": 1101.0}).findings == []


@pytest.mark.parametrize(("loop", "found"), [(1099.0, False), (1100.0, True), (901.0, False), (900.0, True)])
def test_the_threshold_itself_counts(loop: float, found: bool) -> None:
    assert bool(step(atomic_add={"loop": loop}).findings) is found


def test_a_count_that_was_nothing_before_is_no_division() -> None:
    table = {"atomic_add": {"loop": 0}, "inline_asm": {"loop": 1000}}
    assert only(step(table, atomic_add={"loop": 50}, inline_asm={"loop": 1010})).verdict is Verdict.REGRESSION


def test_the_heaviest_rule_decides_when_directions_are_mixed() -> None:
    finding = only(step(atomic_add={"width": 8, "fences": 32}))
    assert finding.verdict is Verdict.IMPROVEMENT
    assert [c.metric for c in finding.codegen_changes] == ["width", "fences"]
    assert "others point the other way" in finding.explanation
    assert "point the other way" not in only(step(atomic_add={"width": 8, "loop": 500})).explanation


@pytest.mark.parametrize("variant", ["atomic_add", "inline_asm"])
@pytest.mark.parametrize("status", NOT_THERE)
def test_what_compiled_and_does_no_more_leaves_no_valid_data(
    variant: str, status: MeasurementStatus | None
) -> None:
    after = [m for m in at(NEW, PAIR) if m.variant != variant]
    if status:
        after.append(measured(NEW, variant, status=status))
    finding = judged(at(OLD, PAIR), after).findings[0]
    assert (finding.verdict, finding.reference) == (Verdict.NO_VALID_DATA, "inline_asm")
    word = status.value if status else "not measured"
    assert f"{variant} compiled at {OLD.label} and is {word} now" in finding.explanation
    assert finding.codegen_changes == ()


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("ptxas: boom\nsecond line", "now: ptxas: boom."),
        (" \n ", "no message in the evidence store"),
        (None, "no message in the evidence store"),
    ],
)
def test_the_compilers_first_line_is_the_reason(message: str | None, words: str) -> None:
    refused = evidence(NEW, status="failed", message=message)
    after = [measured(NEW, "atomic_add", status=MeasurementStatus.FAILED, found=refused), at(NEW, PAIR)[1]]
    assert words in judged(at(OLD, PAIR), after).findings[0].explanation


@pytest.mark.parametrize("status", NOT_THERE)
def test_what_is_measured_for_the_first_time_is_counted_not_found(status: MeasurementStatus | None) -> None:
    before = at(OLD, PAIR)[1:] + ([measured(OLD, "atomic_add", status=status)] if status else [])
    judgement = judged(before, at(NEW, PAIR))
    assert (judgement.findings, judgement.counts[MEASURED_FIRST]) == ([], 1)


def test_a_lost_candidate_says_nothing_of_a_reference_that_was_never_there() -> None:
    judgement = judged(at(OLD, PAIR), at(NEW, PAIR)[1:])
    assert {f.reference for f in judgement.findings} == {"inline_asm"}
    assert judgement.counts[ABSENT] == 1


def test_what_neither_side_has_is_counted() -> None:
    counts = step().counts
    assert (counts[COMPARED], counts[ABSENT]) == (2, 1)  # of two references `store` was never measured


def test_a_metric_that_does_not_apply_on_one_side_cannot_change() -> None:
    sides = at(OLD, PAIR), at(NEW, PAIR)
    sides[0][0].metrics["width"] = None
    assert judged(*sides).findings == []


def with_evidence(old: Evidence | None, new: Evidence | None, **changes: dict[str, float]) -> Judgement:
    """A step whose candidate has this evidence; the reference's code never changes."""
    sides = []
    for commit, found, changed in ((OLD, old, {}), (NEW, new, changes)):
        metrics = {**PAIR["atomic_add"], **changed.get("atomic_add", {})}
        sides.append(
            [
                measured(commit, "atomic_add", metrics, found=found),
                measured(commit, "inline_asm", PAIR["inline_asm"], found=evidence(commit, "inline_asm")),
            ]
        )
    return judged(*sides)


def test_identical_code_and_irrelevant_changes_are_counted_apart() -> None:
    same = with_evidence(evidence(OLD), evidence(NEW)).counts
    assert (same[SAME_CODE], same[IRRELEVANT]) == (1, 0)
    other = with_evidence(evidence(OLD), evidence(NEW, identity="code 2")).counts
    assert (other[SAME_CODE], other[IRRELEVANT]) == (0, 1)
    # Without evidence nobody knows that the code is the same.
    unknown = with_evidence(evidence(OLD), None).counts
    assert (unknown[SAME_CODE], unknown[IRRELEVANT]) == (0, 1)


def test_a_record_without_kernels_is_no_crash() -> None:
    empty = Evidence(NEW.commit, NEW.label, "v", "atomic_add", "ok", None, ())
    assert only(with_evidence(evidence(OLD), empty, atomic_add={"width": 1})).verdict is Verdict.REGRESSION


def test_unmeasured_commits_between_are_counted_and_compared_across() -> None:
    finding = only(judged(at(OLD, PAIR), at(COMMITS[3], PAIR, atomic_add={"width": 1})))
    assert (finding.before, finding.after, finding.unmeasured_commits) == (OLD, COMMITS[3], 2)
    assert only(step(atomic_add={"width": 1})).unmeasured_commits == 0


def test_neighbours_follow_the_order_of_commits_not_of_the_files() -> None:
    third = COMMITS[2]
    sides = [at(third, PAIR), at(OLD, PAIR), at(NEW, PAIR, atomic_add={"width": 1})]
    found = [(f.before, f.after, f.verdict) for f in judged(*sides).findings]
    assert found == [(OLD, NEW, Verdict.REGRESSION), (NEW, third, Verdict.IMPROVEMENT)]


def test_the_id_stays_when_the_verdict_changes_and_differs_otherwise() -> None:
    worse, better = (only(step(atomic_add={"width": width})) for width in (1, 8))
    assert worse.verdict is not better.verdict
    assert worse.id == better.id
    elsewhere = only(judged(at(NEW, PAIR), at(COMMITS[2], PAIR, atomic_add={"width": 1})))
    assert elsewhere.id != worse.id


def test_each_pair_has_an_id_of_its_own() -> None:
    roles = {**ROLES, "descriptor_add": Role.CANDIDATE}
    before, after = ([measured(c, v, {"width": w}) for v in roles] for c, w in ((OLD, 4), (NEW, 1)))
    found = judge_codegen(before + after, COMMITS, roles, POLICY).findings
    assert len({(f.candidate, f.reference) for f in found}) == len({f.id for f in found}) == 4


PLACES = [(case, target) for case in (HD64, HD128) for target in ("cuda:80", "cuda:90")]


def everywhere(commit: Commit, width: float) -> list[CodegenMeasurement]:
    return [
        measured(commit, variant, {"width": w}, case=case, target=target)
        for case, target in PLACES
        for variant, w in (("atomic_add", width), ("inline_asm", 4))
    ]


def test_targets_and_cases_do_not_mix() -> None:
    after = everywhere(NEW, 4)
    place = [(m.variant, m.case, m.target) for m in after].index(("atomic_add", HD128, "cuda:80"))
    after[place].metrics["width"] = 1
    finding = only(judged(everywhere(OLD, 4), after))
    assert (finding.case, finding.target) == (HD128, "cuda:80")
    assert len({f.id for f in judged(everywhere(OLD, 4), everywhere(NEW, 1)).findings}) == 4
