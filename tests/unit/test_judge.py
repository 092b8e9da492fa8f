"""From folders to a history: which result counts, and what is said about those that do not."""

import json
from pathlib import Path

import pytest
from builders import (
    COMMITS,
    HD64,
    NAN,
    NEW,
    OLD,
    asv_document,
    record_document,
    write_asv,
    write_lists,
    write_object,
    write_record,
)

from scripts.tracker.errors import TrackerError
from scripts.tracker.judge import judge
from scripts.tracker.measured import History, load_history
from scripts.tracker.model import Commit, MeasurementStatus, Verdict
from scripts.tracker.workspace import Workspace


def table(width: float | None) -> dict[str, dict[str, float | None]]:
    return {"atomic_add": {"dq_vector_width": width}, "inline_asm": {"dq_vector_width": 1.0}}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Two commits, measured here; atomic_add becomes narrower."""
    space = Workspace(tmp_path)
    write_lists(space.results)
    write_asv(space.results, asv_document(OLD, table(4.0)))
    write_asv(space.results, asv_document(NEW, table(1.0)))
    return space


def widths(history: History) -> dict[str, float | None]:
    return {
        history.label(m.commit): m.metrics["dq_vector_width"]
        for m in history.measurements
        if m.variant == "atomic_add"
    }


def test_from_files_to_a_finding(workspace: Workspace) -> None:
    history = load_history(workspace)
    assert history.problems == []
    # Nothing is stored in this workspace, and that is said.
    assert history.notes == ["4 results have no record in the evidence store: make track renews it"]
    assert widths(history) == {OLD.label: 4.0, NEW.label: 1.0}
    [finding] = judge(history).findings
    assert (finding.verdict, finding.case, finding.before) == (Verdict.REGRESSION, HD64, OLD)


def test_what_was_measured_here_counts_before_what_was_shipped(workspace: Workspace) -> None:
    write_lists(workspace.recorded)
    write_asv(workspace.recorded, asv_document(NEW, table(2.0)))
    write_asv(workspace.recorded, asv_document(COMMITS[2], table(8.0)))
    assert widths(load_history(workspace)) == {OLD.label: 4.0, NEW.label: 1.0, COMMITS[2].label: 8.0}


def test_a_shipped_history_alone_is_enough(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    write_lists(space.recorded)
    write_asv(space.recorded, asv_document(OLD, table(2.0)))
    assert widths(load_history(space)) == {OLD.label: 2.0}


def test_commits_of_both_folders_are_listed_once(workspace: Workspace) -> None:
    write_lists(workspace.recorded, [*COMMITS, Commit("f" * 40, "9.0")])
    assert [c.label for c in load_history(workspace).commits] == [*(c.label for c in COMMITS), "9.0"]


def test_other_kernels_are_left_out_with_a_note(workspace: Workspace) -> None:
    write_asv(workspace.results, asv_document(COMMITS[2], table(8.0), version="fingerprint-0"))
    history = load_history(workspace)
    assert COMMITS[2].label not in widths(history)
    [note] = [n for n in history.notes if "evidence store" not in n]
    assert "1 commits" in note
    assert "fingerprint-0" in note


def test_a_commit_outside_the_history_is_told(workspace: Workspace) -> None:
    stray = Commit("f" * 40, "?")
    write_asv(workspace.results, asv_document(stray, table(8.0)))
    history = load_history(workspace)
    [note] = [n for n in history.notes if "evidence store" not in n]
    assert stray.commit[:10] in note
    assert len(judge(history).findings) == 1


def test_evidence_is_attached_to_its_measurement(workspace: Workspace) -> None:
    write_record(workspace.evidence.root, record_document(OLD))
    found = {(m.commit, m.variant): m.evidence for m in load_history(workspace).measurements}
    assert found.pop((OLD.commit, "atomic_add")) is not None
    assert set(found.values()) == {None}


def test_evidence_of_other_kernels_is_not_attached(workspace: Workspace) -> None:
    write_record(workspace.evidence.root, record_document(OLD, fingerprint="fingerprint-0"))
    history = load_history(workspace)
    assert all(m.evidence is None for m in history.measurements)
    assert history.problems == []


@pytest.mark.parametrize(
    ("width", "status"),
    [
        (4.0, "failed"),
        (4.0, "unsupported"),
        (None, "ok"),
        (NAN, "ok"),
        (NAN, "failed"),
        (None, "unsupported"),
    ],
)
def test_asv_and_the_evidence_disagree(workspace: Workspace, width: float | None, status: str) -> None:
    write_asv(workspace.results, asv_document(OLD, table(width)))
    write_record(workspace.evidence.root, record_document(OLD, status=status))
    history = load_history(workspace)
    [problem] = history.problems
    assert f"atomic_add at {OLD.label}" in str(problem)
    assert f"says {status}" in str(problem)
    assert all(m.evidence is None for m in history.measurements)


@pytest.mark.parametrize(("width", "status"), [(4.0, "ok"), (None, "failed"), (NAN, "unsupported")])
def test_asv_and_the_evidence_agree(workspace: Workspace, width: float | None, status: str) -> None:
    write_asv(workspace.results, asv_document(OLD, table(width)))
    write_record(workspace.evidence.root, record_document(OLD, status=status))
    history = load_history(workspace)
    assert history.problems == []
    assert sum(m.evidence is not None for m in history.measurements) == 1


def test_a_damaged_record_is_a_problem_and_no_end(workspace: Workspace) -> None:
    path = write_record(workspace.evidence.root, record_document(OLD))
    path.write_text("{")
    history = load_history(workspace)
    [problem] = history.problems
    assert str(path) in str(problem)
    assert len(judge(history).findings) == 1


def test_a_damaged_result_is_a_problem_and_no_end(workspace: Workspace) -> None:
    path = write_asv(workspace.results, asv_document(COMMITS[2], table(1.0)))
    path.write_text(path.read_text()[:-5])
    history = load_history(workspace)
    assert str(path) in str(history.problems)
    assert len(judge(history).findings) == 1


def test_failures_are_kept_by_target(workspace: Workspace) -> None:
    failures = {"cuda:90": {COMMITS[3].commit: {"reason": "no wheel", "transient": False}}}
    (workspace.results / "failures.json").write_text(json.dumps(failures))
    assert load_history(workspace).failures["cuda:90"][COMMITS[3].commit].reason == "no wheel"


def test_nothing_measured_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match="run make track first"):
        judge(load_history(Workspace(tmp_path)))


def test_nothing_but_damage_names_the_file(workspace: Workspace) -> None:
    for path in workspace.results.glob("*/*.json"):
        path.write_text("{")
    with pytest.raises(TrackerError, match=OLD.commit[:8]):
        judge(load_history(workspace))


@pytest.mark.parametrize("name", ["commits.json", "variants.json"])
@pytest.mark.parametrize("content", [None, "{"])
def test_without_order_or_roles_there_is_no_judgement(
    workspace: Workspace, name: str, content: str | None
) -> None:
    path = workspace.results / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(TrackerError, match=name):
        judge(load_history(workspace))


def test_a_damaged_list_of_commits_is_what_the_message_is_about(workspace: Workspace) -> None:
    (workspace.results / "commits.json").write_text("{")
    with pytest.raises(TrackerError, match=r"commits\.json: not readable"):
        judge(load_history(workspace))


def test_a_skipped_measurement_stays_one(workspace: Workspace) -> None:
    write_asv(workspace.results, asv_document(OLD, table(NAN)))
    found = {(m.commit, m.variant): m.status for m in load_history(workspace).measurements}
    assert found[OLD.commit, "atomic_add"] is MeasurementStatus.SKIPPED


@pytest.mark.parametrize("damage", [b"no zstd", None])
def test_a_text_that_cannot_be_read_is_a_problem_and_its_stage_unknown(
    workspace: Workspace, damage: bytes | None
) -> None:
    store = workspace.evidence.root
    texts = [write_object(store, f"text of {commit.label}".encode()) for commit in (OLD, NEW)]
    for commit, digest in zip((OLD, NEW), texts, strict=True):
        write_record(store, record_document(commit, objects={"ptx": digest}))
    whole = judge(load_history(workspace)).findings[0]
    assert "no text of it: ttir, ttgir, llir, sass." in whole.explanation
    broken = store / "objects" / texts[1][:2] / f"{texts[1]}.zst"
    if damage is None:
        broken.unlink()
    else:
        broken.write_bytes(damage)
    history = load_history(workspace)
    [found] = judge(history).findings
    assert "the stage is unknown" in found.explanation
    [problem] = history.problems
    assert str(broken) in str(problem)
    assert "delete it and run make track again" in str(problem)


def test_a_commit_that_one_list_lacks_keeps_its_place(workspace: Workspace) -> None:
    """At the end it would look newer than all, and each step around it would be reversed."""
    write_lists(workspace.results, [COMMITS[0], COMMITS[2], COMMITS[3]])
    write_lists(workspace.recorded, list(COMMITS[:4]))
    assert load_history(workspace).commits == list(COMMITS[:4])


def test_a_commit_listed_twice_is_a_problem(workspace: Workspace) -> None:
    write_lists(workspace.results, [COMMITS[0], COMMITS[1], COMMITS[0]])
    assert any("stands there twice" in str(problem) for problem in load_history(workspace).problems)
