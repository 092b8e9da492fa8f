"""Where following stands: counts, staleness, and what is remembered of failures that may pass."""

import datetime
import json
import os
from pathlib import Path

import pytest
from builders import TABLE, Commit, asv_document, write_asv
from history_builders import line, sha

from scripts.tracker import processes
from scripts.tracker.attribution_rules import read_rules
from scripts.tracker.errors import TrackerError
from scripts.tracker.follow_state import FollowState, check_toolchain, read_state, write_state
from scripts.tracker.follow_status import FollowStatus, last_started, status_json, status_of
from scripts.tracker.processes import LOCK_FILE, holder, is_locked, only_one
from scripts.tracker.results import BuildFailure, read_commit_results
from scripts.tracker.selection import read_selection_rules, select
from scripts.tracker.timing_backlog import TimingBacklog
from scripts.tracker.workspace import Workspace

NOW = datetime.datetime(2026, 12, 1, 12, tzinfo=datetime.UTC)
LIMIT = datetime.timedelta(days=3)
A_DAY = datetime.timedelta(days=1)


def status(
    measured: dict[str, str], failures: dict[str, BuildFailure] | None = None, **changed: object
) -> FollowStatus:
    commits = line(6)
    selection = select(commits, read_selection_rules(read_rules()), "cuda:90", measured)
    gpu = TimingBacklog((), (), ())
    found = status_of(commits, selection, [], set(measured), set(), gpu, failures or {}, NOW - A_DAY)
    return FollowStatus(**{**{f: getattr(found, f) for f in found.__slots__}, **changed})


def test_counts() -> None:
    failures = {
        sha(0): BuildFailure("x", False, "compiler error"),
        sha(1): BuildFailure("y", True, "download"),
        sha(4): BuildFailure("old: it is measured now", True, "download"),
    }
    got = status({sha(4): "a", sha(3): "a"}, failures)
    assert (got.seen.sha, got.measured.sha, got.timed) == (sha(5), sha(4), None)
    assert dict(got.backlog) == {"new": 1, "history": 3}
    assert dict(got.failures) == {"compiler error": 1, "download": 1}
    assert got.waiting == 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"last_result": NOW - A_DAY}, None),
        ({"last_result": NOW - 4 * A_DAY}, "last new result is 4.0 days old"),
        ({"last_result": NOW - 4 * A_DAY, "backlog": {}}, None),  # nothing to do is not stale
        ({"last_result": None}, "nothing is measured"),
        ({"last_result": NOW - A_DAY, "refreshed_at": NOW - 5 * A_DAY}, "looked at 5.0 days ago"),
        ({"last_result": NOW - A_DAY, "refreshed_at": None}, "never looked at"),
    ],
)
def test_stale(changed: dict[str, object], words: str | None) -> None:
    why = status({sha(3): "a"}, **changed).stale(NOW, LIMIT)
    assert why is None if words is None else why is not None and words in why


def test_the_last_result_is_as_asv_says_and_wrong_clocks_do_not_count(tmp_path: Path) -> None:
    documents = [asv_document(Commit(sha(n), f"c{n}"), TABLE) for n in range(3)]
    for document, started_at in zip(documents, (1_796_000_000_000, 9_999_999_999_999_999, -5), strict=True):
        for row in document["results"].values():
            row[3] = started_at
    results = [read_commit_results(write_asv(tmp_path, document)) for document in documents]
    found = last_started(results)
    assert found is not None
    assert (found.year, found.month) == (2026, 11)
    assert last_started([]) is None


def test_failures_that_may_pass_are_due_later_each_time_and_never_given_up() -> None:
    state = FollowState()
    hours = []
    when = NOW
    for _ in range(12):
        state.count("cuda:90", "c", True, when)
        waited = 0
        while "c" in state.not_due("cuda:90", when + datetime.timedelta(hours=waited)):
            waited += 1
        hours.append(waited)
        when += datetime.timedelta(hours=waited)
    assert hours == [1, 2, 4, 8, 16, 32, 64, 128, 168, 168, 168, 168]
    assert state.not_due("cuda:80", when) == set()
    # A clock that was wrong then must not wait for years.
    state.count("cuda:90", "d", True, NOW + 9999 * A_DAY)
    assert "d" not in state.not_due("cuda:90", NOW)
    state.count("cuda:90", "c", False, when)
    assert "c" not in state.attempts["cuda:90"]


def test_the_state_survives_a_file(tmp_path: Path) -> None:
    assert read_state(tmp_path) == FollowState()
    state = FollowState(tip="x", refreshed_at=NOW, toolchain={})
    state.count("cuda:90", "c", True, NOW)
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state


def test_toolchains_are_not_mixed() -> None:
    state = FollowState()
    check_toolchain(state, {"LLVM_SYSPATH": "/usr/lib/llvm-19", "HOME": "/root"})
    assert state.toolchain == {"LLVM_SYSPATH": "/usr/lib/llvm-19"}
    check_toolchain(state, {"LLVM_SYSPATH": "/usr/lib/llvm-19"})
    for other in ({}, {"LLVM_SYSPATH": "/usr/lib/llvm-20"}, {**state.toolchain, "DEBUG": "1"}):
        with pytest.raises(
            TrackerError, match=r"made with LLVM_SYSPATH=/usr/lib/llvm-19.*move \.asv/commits away"
        ):
            check_toolchain(state, other)


def test_a_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    path = workspace.cache / LOCK_FILE
    assert not is_locked(path)
    with only_one(workspace):
        assert is_locked(path)
        assert f"(process {os.getpid()}, since " in holder(path)
        words = rf"process {os.getpid()}, since .* wait for it or stop it"
        with pytest.raises(TrackerError, match=words), only_one(workspace):
            pass
    assert not is_locked(path)
    # What a holder left that was killed is no lock, whatever it says.
    for left in ("", "{", "[]", '{"pid": "x"}'):
        path.write_text(left)
        with only_one(workspace):
            assert str(os.getpid()) in holder(path)


def test_a_lock_that_a_stranger_holds_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose pid is alive is at work; nobody is killed."""
    workspace = Workspace(tmp_path)
    with only_one(workspace):
        monkeypatch.setattr(processes, "_stop_orphans", lambda *_: pytest.fail("it is alive"))
        with pytest.raises(TrackerError, match="wait for it"), only_one(workspace):
            pass


def test_json_says_what_the_lines_say() -> None:
    found = status({sha(4): "a"}, {sha(1): BuildFailure("y", True, "download")}, last_result=NOW)
    document = json.loads(status_json(found, "follow (process 7)", None))
    assert (document["schema"], document["stale"], document["at_work"]) == (1, None, "follow (process 7)")
    assert document["status"]["measured"]["sha"] == sha(4)
    assert document["status"]["timed"] is None
    assert document["status"]["failures"] == {"download": 1}
    assert document["status"]["backlog"] == {"new": 1, "history": 4}
    assert document["status"]["last_result"] == "2026-12-01T12:00:00Z"
