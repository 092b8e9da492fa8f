"""Following main, end to end but for asv: what is measured, in which order, and what is remembered."""

import json
import subprocess
from pathlib import Path

import pytest
from follow_rig import FollowRig, write_triton
from history_builders import Repository


@pytest.fixture
def triton(tmp_path: Path) -> Repository:
    return write_triton(tmp_path / "triton")


@pytest.fixture
def rig(tmp_path: Path, triton: Repository) -> FollowRig:
    return FollowRig(tmp_path / "checkout", triton.folder)


def number(triton: Repository, sha: str) -> int:
    return int(triton.git("log", "-1", "--format=%s", sha).split()[1])


def asked(rig: FollowRig, triton: Repository) -> list[int]:
    return [number(triton, sha) for _, sha in rig.asv_log()]


def test_main_is_followed_to_the_end_and_judged(rig: FollowRig, triton: Repository) -> None:
    done = rig.follow()
    assert done.returncode == 1, done.stdout + done.stderr  # one commit does not compile
    # Newest first; with nothing measured there is no gap yet. 1 and 6 do not apply.
    assert asked(rig, triton) == [8, 7, 5, 4, 3, 2, 0]
    assert "compiler error: lib/x.cpp:1:1: error: broken (not tried again" in done.stdout
    commits = json.loads((rig.workspace.results / "commits.json").read_text())
    assert [number(triton, c["commit"]) for c in commits] == [0, 2, 3, 4, 5, 7, 8]
    shared = json.loads((rig.workspace.results / "not_applicable.json").read_text())
    assert {number(triton, sha): number(triton, s["shares"]) for sha, s in shared.items()} == {1: 0, 6: 5}
    [broken] = rig.failures().values()
    assert broken == {
        "reason": "compiler error: lib/x.cpp:1:1: error: broken",
        "transient": False,
        "kind": "compiler error",
    }
    # Findings are there as for releases.
    flagged = rig.run("flag_regressions", "--commits", "--format", "json")
    assert flagged.returncode in (0, 1), flagged.stderr

    # A second run does nothing, a status tells all of it.
    assert rig.follow().returncode == 0
    assert len(rig.asv_log()) == 7
    status = rig.run("status")
    assert "compiled:        6 commits\n" in status.stdout, status.stderr
    assert "backlog:         nothing" in status.stdout
    assert "failures:        1 compiler error; of them 0 are tried again" in status.stdout
    assert "at work now:     nobody" in status.stdout
    assert status.returncode == 0


def test_new_commits_come_first_and_a_jump_is_halved(rig: FollowRig, triton: Repository) -> None:
    tip, oldest = triton.head(), triton.git("rev-list", "--max-parents=0", "main")
    triton.git("reset", "--quiet", "--hard", oldest)
    assert rig.follow().returncode == 0
    triton.git("reset", "--quiet", "--hard", tip)
    assert rig.follow("--limit", "3").returncode == 0
    # 8 is new; 0 and 8 differ, 4 is as 0 and 5 is as 8: the change is 5's.
    assert asked(rig, triton) == [0, 8, 4, 5]
    triton.commit("Change 9 (#9)", "lib/h.cpp")
    assert rig.follow("--limit", "3").returncode == 1
    assert asked(rig, triton)[4:] == [9, 7, 3]
    flagged = rig.run("flag_regressions", "--commits", "--format", "json")
    assert flagged.returncode in (0, 1), flagged.stderr
    chosen = rig.run("select_commits", "--out", str(rig.root / "left.txt"))
    assert chosen.returncode == 0, chosen.stderr
    left = (rig.root / "left.txt").read_text().split()
    assert [number(triton, sha) for sha in left] == [2]


def test_a_server_that_is_gone_is_said_and_the_work_goes_on(rig: FollowRig, triton: Repository) -> None:
    assert rig.follow("--limit", "1").returncode == 0
    triton.folder.rename(triton.folder.with_name("away"))
    done = rig.follow("--limit", "1")
    assert done.returncode == 0, done.stderr
    assert "warning: not refreshed" in done.stdout
    assert len(rig.asv_log()) == 2


def test_a_rewritten_main_leaves_orphans(rig: FollowRig, triton: Repository) -> None:
    assert rig.follow("--limit", "1").returncode == 0
    gone = triton.head()
    triton.git("reset", "--quiet", "--hard", "HEAD~1")
    triton.commit("Change 10 (#10)", "lib/z.cpp")
    done = rig.follow("--limit", "1")
    assert done.returncode == 0, done.stderr
    assert "main was rewritten: 1 commits" in done.stdout
    assert json.loads((rig.workspace.results / "orphans.json").read_text()) == [gone]
    assert [number(triton, sha) for _, sha in rig.asv_log()] == [8, 10]
    assert "not on main:     1 measured" in rig.run("status").stdout


def test_what_may_pass_is_tried_again_but_not_at_once(rig: FollowRig, triton: Repository) -> None:
    (triton.folder / "python" / "plan.py").write_text(
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/llvm', timeout=5)"
    )
    triton.commit("Change 9 (#9)", "lib/h.cpp")
    assert rig.follow("--limit", "1").returncode == 1
    [failure] = rig.failures().values()
    assert failure["kind"] == "download"
    assert rig.follow("--limit", "1").returncode == 0
    assert asked(rig, triton) == [9, 8]
    state_file = rig.workspace.results / "follow.json"
    state = json.loads(state_file.read_text())
    [attempts] = state["attempts"]["cuda:90"].values()
    attempts["last"] = "2020-01-01T00:00:00Z"
    state_file.write_text(json.dumps(state))
    assert rig.follow("--limit", "1").returncode == 1
    assert asked(rig, triton) == [9, 8, 9]


def test_a_machine_that_cannot_build_stops_the_run(rig: FollowRig, triton: Repository) -> None:
    done = rig.follow(ATOMWATCH_NVIDIA_TOOLS="/nowhere", ATOMWATCH_PREBUILT="")
    assert done.returncode == 2
    assert "the next commit would fail as well" in done.stderr
    assert len(rig.asv_log()) == 1


def test_another_toolchain_is_refused(rig: FollowRig) -> None:
    assert rig.follow("--limit", "1").returncode == 0
    done = rig.follow("--limit", "1", LLVM_SYSPATH="/usr/lib/llvm")
    assert done.returncode == 2
    assert "made with what each commit pins, and would now be made with LLVM_SYSPATH=/usr" in done.stderr


def test_a_second_driver_is_told_who_works(rig: FollowRig) -> None:
    first = rig.start()
    try:
        wait_for(rig.root / "asv.log", first)
        second = rig.follow()
        assert second.returncode == 2
        assert f"scripts.follow (process {first.pid}, since " in second.stderr
        assert f"scripts.follow (process {first.pid}, since" in rig.run("status").stdout
    finally:
        rig.end(first, everything=True)


def wait_for(path: Path, driver: subprocess.Popen[bytes]) -> None:
    while not path.exists():
        assert driver.poll() is None, (path.parent / "driver.log").read_text()
        try:
            driver.wait(0.05)
        except subprocess.TimeoutExpired:
            continue


def test_an_asv_without_its_driver_is_stopped_by_the_next(rig: FollowRig) -> None:
    first = rig.start()
    wait_for(rig.root / "asv.log", first)
    rig.end(first, everything=False)
    done = rig.follow("--limit", "1")
    assert done.returncode == 0, done.stderr
    starts = [sha for word, sha in rig.asv_log() if word == "start"]
    assert starts[0] == starts[1]


@pytest.mark.parametrize("content", ["{", "[]", '{"attempts": 7}'])
def test_damaged_books_are_named(rig: FollowRig, content: str) -> None:
    (rig.workspace.results).mkdir(parents=True)
    (rig.workspace.results / "follow.json").write_text(content)
    done = rig.follow()
    assert done.returncode == 2
    assert "follow.json: not readable" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_status_before_anything_was_followed(rig: FollowRig) -> None:
    done = rig.run("status")
    assert done.returncode == 2
    assert "run make follow first" in done.stderr


def test_a_shard_is_measured_on_a_worker_and_merged(
    rig: FollowRig, triton: Repository, tmp_path: Path
) -> None:
    assert rig.follow("--limit", "1").returncode == 0
    made = rig.run("select_commits", "--out", str(tmp_path / "shards"), "--shards", "2", "--limit", "3")
    assert json.loads(made.stdout) == {"shard": ["shard-001.txt", "shard-002.txt"]}, made.stderr
    with (tmp_path / "shards" / "shard-002.txt").open("a") as shard:
        print("dead" * 10, file=shard)  # pushed away since
    workers = []
    for n in (1, 2):
        worker = FollowRig(tmp_path / f"worker-{n}", triton.folder)
        done = worker.follow("--only", str(tmp_path / "shards" / f"shard-00{n}.txt"))
        assert done.returncode == 0, done.stdout + done.stderr
        workers.append(str(worker.root))
    assert "1 are no commits of main: deaddeadde" in done.stdout
    merged = rig.run("merge_results", *workers, *workers)
    assert merged.returncode == 0, merged.stderr
    assert "3 results had, 3 results new" in merged.stdout
    assert "compiled:        4 commits" in rig.run("status").stdout
    # What the workers measured is not measured again: 3 does not compile, 2 and 0 are left.
    assert rig.follow().returncode == 1
    assert asked(rig, triton) == [8, 3, 2, 0]
