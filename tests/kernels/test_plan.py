"""What a session may be asked to do, and how it is spread over GPUs."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from sessions import CASE, NEW, OLD, plan, plan_document

from kernels.plan import Plan, Side, TimedCase, spread

CASES = [TimedCase(d, True, "fp16", n) for d in (64, 128) for n in (2048, 4096, 8192, 16384, 32768)]


def write(folder: Path, content: Any) -> Path:
    path = folder / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_plan_survives_the_way_there_and_back(tmp_path: Path) -> None:
    made = plan(tmp_path, gpus=["GPU-1"], archive="somewhere", fresh=True)
    assert Plan.read(write(tmp_path, vars(made))) == made
    assert made.timed_cases() == [CASE]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "Expecting value"),
        ('{"store": ', "Expecting value"),
        ("\ud800", "decode"),
        ("[]", "not a plan"),
        ("null", "not a plan"),
        ("3", "not a plan"),
        ('"gpus"', "not a plan"),
        ({}, "missing"),
    ],
)
def test_what_is_no_plan_is_named(tmp_path: Path, content: Any, reason: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(
        content.encode("utf-8", "surrogatepass") if isinstance(content, str) else json.dumps(content).encode()
    )
    with pytest.raises(ValueError, match=reason) as caught:
        Plan.read(path)
    assert str(path) in str(caught.value)
    assert "kernels/plan.py" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"commits": []}, "no commits, variants or cases"),
        ({"variants": []}, "no commits, variants or cases"),
        ({"cases": []}, "no commits, variants or cases"),
        ({"commits": [[NEW]]}, "pairs of a commit and its label"),
        ({"commits": [NEW]}, "pairs of a commit and its label"),
        ({"commits": ["ab"]}, "pairs of a commit and its label"),
        ({"min_blocks": 0}, "0 < min_blocks"),
        ({"min_blocks": 9, "max_blocks": 8}, "min_blocks <= max_blocks"),
        ({"min_blocks": "8"}, "not supported"),
        ({"backward_blocks": -1}, "0 <= backward_blocks"),
        ({"budget_s": 0}, "0 < budget_s"),
        ({"budget_s": float("nan")}, "0 < budget_s"),
        ({"target_half_width": -0.1}, "target_half_width"),
        ({"seed": -1}, "0 <= seed"),
        ({"canaries": ["sdpa_flash", "bird"]}, "unknown canaries: bird"),
        ({"canaries": 3}, "not iterable"),
        ({"blocks": 3}, "blocks"),
        ({"cases": [{**asdict(CASE), "n_ctx": 2000}]}, "multiple of 128"),
        ({"cases": [{**asdict(CASE), "n_ctx": 0}]}, "multiple of 128"),
        ({"cases": [{**asdict(CASE), "n_ctx": -128}]}, "multiple of 128"),
        ({"cases": [{**asdict(CASE), "n_ctx": "2048"}]}, "not a plan"),
        ({"cases": [{**asdict(CASE), "batch": 0}]}, "above 0"),
        ({"cases": [{**asdict(CASE), "width": 1}]}, "width"),
        ({"cases": [{"head_dim": 64}]}, "missing"),
        ({"cases": [3]}, "not a plan"),
        ({"cases": [asdict(CASE), asdict(CASE)]}, "stands there twice"),
        ({"variants": ["store", "store"]}, "stands there twice"),
    ],
)
def test_a_bad_plan_names_the_file_and_what_is_wrong(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    path = write(tmp_path, plan_document(tmp_path, **changes))
    with pytest.raises(ValueError, match=reason) as caught:
        Plan.read(path)
    assert str(path) in str(caught.value)


def test_a_plan_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"plan\.json"):
        Plan.read(tmp_path / "plan.json")


def test_a_commit_that_stands_there_twice_is_two_sides(tmp_path: Path) -> None:
    sides = plan(tmp_path, commits=[[OLD, "old"], [NEW, "new"], [OLD, "again"], [OLD, "again"]]).sides()
    assert sides == [Side(OLD, "old", 1), Side(NEW, "new", 1), Side(OLD, "again", 2), Side(OLD, "again", 3)]


def test_the_key_survives_a_file(tmp_path: Path) -> None:
    key = plan(tmp_path).key()
    assert json.loads(json.dumps(key)) == key


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "cuda:80"},
        {"commits": [[OLD, "old"]]},
        {"variants": ["store"]},
        {"seed": 2},
        {"min_blocks": 5},
        {"max_blocks": 7},
        {"backward_blocks": 3},
        {"canaries": []},
    ],
)
def test_what_changes_samples_changes_the_key(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert plan(tmp_path, **changes).key() != plan(tmp_path).key()


def test_places_and_patience_do_not_change_the_key(tmp_path: Path) -> None:
    other = plan(tmp_path, store="x", out="y", archive="z", gpus=["GPU-1"], budget_s=1.0, fresh=True)
    assert other.key() == plan(tmp_path).key()


def test_a_worker_gets_its_gpu_and_its_cases(tmp_path: Path) -> None:
    share = plan(tmp_path, gpus=["GPU-1", "GPU-2"]).of_gpu("GPU-2", [CASES[1]])
    assert share.gpus == ("GPU-2",)
    assert share.timed_cases() == [CASES[1]]
    assert share.key() == plan(tmp_path).key()


# ---- spread over GPUs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("gpus", [["a"], ["a", "b"], ["a", "b", "c", "d"], [str(n) for n in range(16)]])
def test_every_case_has_one_gpu_and_every_gpu_a_case(gpus: list[str]) -> None:
    shares = spread(CASES, gpus)
    assert sorted((c for share in shares.values() for c in share), key=CASES.index) == CASES
    assert set(shares) <= set(gpus)
    assert len(shares) == min(len(gpus), len(CASES))
    assert all(shares.values())


def test_the_order_of_a_plan_does_not_change_who_gets_what() -> None:
    gpus = ["c", "a", "b"]
    shares = spread(CASES, gpus)
    for seed in range(5):
        shuffled, cards = CASES.copy(), gpus.copy()
        random.Random(seed).shuffle(shuffled)
        random.Random(seed).shuffle(cards)
        assert spread(shuffled, cards) == shares


def test_loads_are_as_even_as_the_dearest_case_allows() -> None:
    for count in (2, 3, 4):
        loads = [
            sum(c.cost for c in share) for share in spread(CASES, [str(n) for n in range(count)]).values()
        ]
        dearest = max(c.cost for c in CASES)
        assert max(loads) <= max(dearest, sum(loads) / count * 4 / 3)


def test_each_gpu_begins_with_its_cheapest_case() -> None:
    for share in spread(CASES, ["a", "b"]).values():
        assert [c.cost for c in share] == sorted(c.cost for c in share)


def test_a_shape_is_told_apart_in_its_name() -> None:
    cases = [*CASES, TimedCase(64, False, "fp16", 2048), TimedCase(64, True, "bf16", 2048)]
    cases += [TimedCase(64, True, "fp16", 2048, batch=1), TimedCase(64, True, "fp16", 2048, heads=1)]
    assert len({case.slug for case in cases}) == len(cases)
    assert CASE.slug == "hd64-causal-fp16-n2048-b4-h8"
