"""Many machines: 20 workers with duplicates, losses, late arrivals and damage end in the books of one."""

import itertools
import json
import random
import shutil
from pathlib import Path

import pytest
from builders import (
    SUITE,
    TABLE,
    TARGET,
    TIMED_SUITE,
    asv_document,
    block_document,
    record_document,
    session_document,
    subject_document,
    timed_document,
    write_asv,
    write_object,
    write_record,
)

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import record_failure, write_json
from scripts.tracker.merging import Merge
from scripts.tracker.model import Commit
from scripts.tracker.results import BuildFailure, read_failures
from scripts.tracker.store import EvidenceStore

COMMITS = [Commit(f"{n:08x}" + "beef" * 8, f"{n:08x}be") for n in range(60)]
MACHINE = "codegen-cuda-90"


def measure(folder: Path, commit: Commit, started_at: int = 1, text: bytes = b"ptx of all") -> None:
    """What a worker that measured a commit has: an object, a record with it, a result."""
    evidence, results = folder / "evidence", folder / "results"
    digest = write_object(evidence, text)
    write_record(evidence, record_document(commit, objects={"ptx": digest}))
    document = asv_document(commit, TABLE)
    for row in document["results"].values():
        row[3] = started_at
    path = write_asv(results, document)
    (path.parent / "machine.json").write_text(json.dumps({"machine": MACHINE}))
    write_json(results / "commits.json", COMMITS)


def merged(into: Path, *workers: Path) -> Merge:
    merge = Merge(into / "results", EvidenceStore(into / "evidence"), into / "sessions", SUITE, [TIMED_SUITE])
    for worker in workers:
        merge.add(worker)
    return merge


def books(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_twenty_workers_in_any_order(tmp_path: Path) -> None:
    dice = random.Random(20)
    workers = [tmp_path / f"worker-{n}" for n in range(20)]
    for n, commit in enumerate(COMMITS):
        # Each commit on one machine, a third on a second one that began later.
        measure(workers[n % 20], commit, started_at=100 + n, text=f"ptx {n % 7}".encode())
        if n % 3 == 0:
            measure(workers[(n + 7) % 20], commit, started_at=500 + n, text=f"ptx {n % 7}".encode())
    one = merged(tmp_path / "one", *workers)
    assert one.problems == []
    assert len(list((tmp_path / "one" / "results" / MACHINE).glob("*-*.json"))) == 60
    assert one.counts["results new"] == 60
    assert one.counts["results had"] == 20

    for attempt in range(3):
        order = [w for w in workers for _ in range(dice.randint(1, 3))]  # some arrive more than once
        dice.shuffle(order)
        late = order.pop()
        into = tmp_path / f"again-{attempt}"
        merged(into, *order)
        merged(into, late, *workers[:3])
        merged(into, *workers)
        assert books(into) == books(tmp_path / "one")


def test_what_is_lost_is_missing_and_nothing_else(tmp_path: Path) -> None:
    for n in range(4):
        measure(tmp_path / f"w{n}", COMMITS[n])
    merge = merged(tmp_path / "all", *(tmp_path / f"w{n}" for n in (0, 1, 3)))
    assert merge.problems == []
    names = sorted(p.name[:8] for p in (tmp_path / "all" / "results" / MACHINE).glob("*-*.json"))
    assert names == [COMMITS[n].commit[:8] for n in (0, 1, 3)]


def test_a_checkout_is_a_worker_too(tmp_path: Path) -> None:
    measure(tmp_path / "w", COMMITS[0])
    checkout = tmp_path / "checkout"
    shutil.copytree(tmp_path / "w" / "results", checkout / ".asv" / "commits" / "results")
    shutil.copytree(tmp_path / "w" / "evidence", checkout / ".cache" / "evidence")
    assert merged(tmp_path / "a", checkout).counts == merged(tmp_path / "b", tmp_path / "w").counts
    assert books(tmp_path / "a") == books(tmp_path / "b")


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("pattern", ["evidence/objects/*/*", "evidence/records/*/*/*/*", "results/*/*-*"])
def test_a_flipped_bit_is_left_out_with_all_that_rests_on_it(tmp_path: Path, pattern: str) -> None:
    measure(tmp_path / "w", COMMITS[0], text=b"one text")
    measure(tmp_path / "w", COMMITS[1], text=b"another text")
    if pattern.startswith("results"):
        [path] = (tmp_path / "w" / "results" / MACHINE).glob(f"{COMMITS[0].commit[:8]}-*.json")
        path.write_text(path.read_text()[:-40])
    else:
        damaged(sorted((tmp_path / "w").glob(pattern))[0])
    merge = merged(tmp_path / "all", tmp_path / "w")
    assert merge.problems
    assert merge.counts["results new"] == 1
    # The other half arrives whole from another machine later.
    measure(tmp_path / "v", COMMITS[0], text=b"one text")
    measure(tmp_path / "v", COMMITS[1], text=b"another text")
    assert merged(tmp_path / "all", tmp_path / "v").problems == []
    assert books(tmp_path / "all") == books_of_whole(tmp_path)


def books_of_whole(tmp_path: Path) -> dict[str, bytes]:
    merged(tmp_path / "whole", tmp_path / "v")
    return books(tmp_path / "whole")


def test_a_damaged_file_of_ours_is_mended(tmp_path: Path) -> None:
    measure(tmp_path / "w", COMMITS[0])
    merged(tmp_path / "all", tmp_path / "w")
    good = books(tmp_path / "all")
    for path in [p for p in (tmp_path / "all").rglob("*") if p.is_file() and p.name != "commits.json"]:
        if path.name != "machine.json":
            path.write_bytes(path.read_bytes()[:-9])
    merged(tmp_path / "all", tmp_path / "w")
    assert books(tmp_path / "all") == good


def test_an_incomplete_result_does_not_replace_a_good_one(tmp_path: Path) -> None:
    measure(tmp_path / "w", COMMITS[0], started_at=9)
    merged(tmp_path / "all", tmp_path / "w")
    good = books(tmp_path / "all")
    measure(tmp_path / "v", COMMITS[0], started_at=1)
    write_asv(tmp_path / "v" / "results", asv_document(COMMITS[0], {"atomic_add": {"dq_writes": None}}))
    merge = merged(tmp_path / "all", tmp_path / "v")
    assert "not complete" in merge.problems[0].reason
    assert books(tmp_path / "all") == good


def test_a_result_without_its_evidence_is_left_out(tmp_path: Path) -> None:
    measure(tmp_path / "w", COMMITS[0])
    shutil.rmtree(tmp_path / "w" / "evidence" / "objects")
    merge = merged(tmp_path / "all", tmp_path / "w")
    assert merge.problems[0].reason == "its texts did not come with it"
    assert not list((tmp_path / "all").rglob("*-*.json"))


def test_other_code_of_the_same_commit_is_said_and_one_is_kept_in_any_order(tmp_path: Path) -> None:
    measure(tmp_path / "w", COMMITS[0])
    measure(tmp_path / "v", COMMITS[0])
    record = record_document(COMMITS[0])
    record["kernels"][0]["identity"] = "code 2"
    write_record(tmp_path / "v" / "evidence", record)
    first = merged(tmp_path / "a", tmp_path / "w", tmp_path / "v")
    second = merged(tmp_path / "b", tmp_path / "v", tmp_path / "w")
    for merge in (first, second):
        assert [p for p in merge.problems if "other code of the same commit" in p.reason]
    assert books(tmp_path / "a") == books(tmp_path / "b")


def test_two_commits_with_the_same_eight_digits(tmp_path: Path) -> None:
    twin = Commit(COMMITS[0].commit[:8] + "f" * 32, "twin")
    measure(tmp_path / "w", COMMITS[0])
    measure(tmp_path / "v", twin)
    merge = merged(tmp_path / "all", tmp_path / "w", tmp_path / "v")
    assert "the same eight digits" in merge.problems[0].reason


def test_failures_go_when_somebody_measured_and_the_graver_one_stays(tmp_path: Path) -> None:
    broken, network = BuildFailure("x", False, "compiler error"), BuildFailure("y", True, "download")
    for name, failure in (("w", broken), ("v", network)):
        measure(tmp_path / name, COMMITS[9])
        record_failure(tmp_path / name / "results", TARGET, COMMITS[0].commit, failure)
        record_failure(tmp_path / name / "results", TARGET, COMMITS[1].commit, network)
    measure(tmp_path / "u", COMMITS[1])
    for order in (("w", "v", "u"), ("u", "v", "w")):
        into = tmp_path / "-".join(order)
        merged(into, *(tmp_path / name for name in order))
        assert read_failures(into / "results")[TARGET] == {COMMITS[0].commit: broken}


def test_links_and_strange_names_are_left_out(tmp_path: Path) -> None:
    measure(tmp_path / "w", COMMITS[0])
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    evidence = tmp_path / "w" / "evidence"
    (evidence / "objects" / "ab").mkdir(exist_ok=True)
    (evidence / "objects" / "ab" / f"{'ab' * 32}.zst").symlink_to(secret)
    (evidence / "objects" / "ab" / "x.zst").write_text("what")
    folder = tmp_path / "w" / "results" / "codegen-cuda-90"
    shutil.copytree(folder, tmp_path / "w" / "results" / "another")
    merge = merged(tmp_path / "all", tmp_path / "w")
    assert len(merge.problems) == 3
    assert "not yours" not in "".join(b.decode(errors="replace") for b in books(tmp_path / "all").values())
    assert merge.counts["results new"] == 1


def test_a_folder_of_no_worker(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match="name the folder of a worker"):
        merged(tmp_path / "all", tmp_path)


def time_it(folder: Path, commit: Commit, started_at: int = 1, **more: list[float]) -> Path:
    """What a GPU machine hands in of a commit that is compiled elsewhere."""
    seconds = {("atomic_add", 2048): [1e-3, 2e-3]}
    seconds |= {("atomic_add", int(name.removeprefix("n"))): samples for name, samples in more.items()}
    return write_asv(folder / "results", timed_document(commit, seconds, started_at=started_at))


def test_gpu_time_and_sessions_come_too_in_any_order_and_twice(tmp_path: Path) -> None:
    workers = [tmp_path / name for name in ("compiled", "first", "later", "more")]
    measure(workers[0], COMMITS[0])
    time_it(workers[1], COMMITS[0], started_at=1)
    time_it(workers[2], COMMITS[0], started_at=2)
    # The largest one is kept, although an earlier session took it: a later one was interrupted early.
    largest = time_it(workers[3], COMMITS[0], started_at=1, n8192=[3e-3])
    for n, worker in enumerate(workers[1:]):
        session(worker, "abc", started=f"2026-12-0{n + 1}T13:00:00+00:00")
        session(worker, f"own-{n}")
    for order in itertools.permutations(workers[1:]):
        into = tmp_path / "-".join(worker.name for worker in order)
        assert merged(into, workers[0], *order, *order).problems == []
        [kept] = (into / "results" / "h200").glob("*-*.json")
        assert kept.read_bytes() == largest.read_bytes()
        assert len(list((into / "sessions").glob("*/hd*.json"))) == 4
        assert "2026-12-03" in (into / "sessions" / "abc" / SESSION).read_text()
        assert books(into) == books(tmp_path / "first-later-more")


SESSION = "hd64-causal-fp16-n2048-b4-h8.json"


def session(
    folder: Path, name: str, complete: bool = True, started: str = "2026-12-01T13:00:00+00:00"
) -> Path:
    path = folder / "sessions" / name / SESSION
    path.parent.mkdir(parents=True)
    subjects = [subject_document(COMMITS[0], "atomic_add", [1e-3])]
    document = session_document(subjects, [block_document()], complete=complete, started_at=started)
    path.write_text(json.dumps(document))
    return path


def test_an_interrupted_session_waits_on_its_own_machine(tmp_path: Path) -> None:
    session(tmp_path / "w", "abc", complete=False)
    merge = merged(tmp_path / "all", tmp_path / "w")
    assert (merge.problems, merge.counts["sessions unfinished"]) == ([], 1)
    assert not (tmp_path / "all" / "sessions").exists()


@pytest.mark.parametrize(
    ("version", "text", "words"),
    [
        ("other-kernels.method-1", "", "of other kernels"),
        (TIMED_SUITE.version, "[", "not a whole asv result file"),
    ],
)
def test_a_time_that_cannot_be_compared_is_left_out(
    tmp_path: Path, version: str, text: str, words: str
) -> None:
    measure(tmp_path / "w", COMMITS[0])
    document = timed_document(COMMITS[0], {("atomic_add", 2048): [1e-3]}, version)
    path = write_asv(tmp_path / "w" / "results", document)
    if text:
        path.write_text(text)
    merge = merged(tmp_path / "all", tmp_path / "w")
    [problem] = merge.problems
    assert words in problem.reason
    assert not list((tmp_path / "all").rglob("h200/*-*.json"))


def test_a_time_of_a_kernel_that_nobody_compiled_is_left_out(tmp_path: Path) -> None:
    time_it(tmp_path / "gpu", COMMITS[0])
    measure(tmp_path / "w", COMMITS[0])
    [problem] = merged(tmp_path / "all", tmp_path / "gpu").problems
    assert "not compiled here" in problem.reason
    # It is no loss: with the kernels there it is merged.
    assert merged(tmp_path / "all", tmp_path / "w", tmp_path / "gpu").problems == []
    assert len(list((tmp_path / "all").rglob("h200/*-*.json"))) == 1


def test_a_time_of_other_kernels_gives_way_to_one_of_todays(tmp_path: Path) -> None:
    measure(tmp_path / "w", COMMITS[0])
    old = timed_document(
        COMMITS[0], {("atomic_add", 2048): [1e-3], ("atomic_add", 8192): [1e-3]}, "other.method-1"
    )
    write_asv(tmp_path / "all" / "results", old)
    new = time_it(tmp_path / "w", COMMITS[0])
    assert merged(tmp_path / "all", tmp_path / "w").problems == []
    [kept] = (tmp_path / "all").rglob("h200/*-*.json")
    assert kept.read_bytes() == new.read_bytes()
