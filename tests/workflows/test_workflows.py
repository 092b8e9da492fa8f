"""The workflows and their shell as texts: who may do what, with which secret, on whose machine; and the
branch `results` with two writers. test_chain.py executes them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.workflows.chain import ROOT, WORKFLOWS, pinned_actions
from tests.workflows.tiny_triton import git


def test_two_writers_of_the_branch_both_land(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "results.git")
    url = f"file://{tmp_path / 'results.git'}"

    def call(folder: Path, step: str) -> None:
        script = ROOT / ".github" / "scripts" / "results.sh"
        done = subprocess.run([script, step, url], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def measure(folder: Path, name: str) -> None:
        place = folder / ".asv" / "commits" / "results" / "ledger"
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
        (place / ".lock").write_text("")

    a, b = tmp_path / "a", tmp_path / "b"
    for folder in (a, b):
        folder.mkdir()
        call(folder, "take")
    measure(a, "one.json")
    call(a, "save")
    call(a, "save")  # nothing new is no error
    call(b, "take")
    measure(a, "two.json")
    call(a, "save")
    measure(b, "three.json")
    call(b, "save")
    names = git(tmp_path / "results.git", "ls-tree", "-r", "--name-only", "results").split()
    assert names == [f"results/ledger/{name}.json" for name in ("one", "three", "two")]
    log = git(tmp_path / "results.git", "log", "--format=%s", "results").split("\n")
    assert set(filter(None, log)) == {"Results"}


def test_every_action_is_pinned_by_its_full_hash() -> None:
    assert len(pinned_actions()) == 6
    assert all(re.fullmatch(r"[0-9a-f]{40}", ref) for _, ref in pinned_actions())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_trigger_brings_strangers_to_our_machines(path: Path) -> None:
    text = path.read_text()
    assert "pull_request_target" not in text
    assert "workflow_run" not in text
    if "self-hosted" in text:
        assert not re.search(r"^  pull_request:", text, re.MULTILINE)
    assert re.search(r"^permissions: \{\}$", text, re.MULTILINE)


def test_a_secret_is_in_one_job_and_that_job_has_an_environment() -> None:
    [text] = [path.read_text() for path in WORKFLOWS if path.name == "benchmark.yml"]
    jobs = re.split(r"^  (?=[a-z]+:$)", text.split("\njobs:\n")[1], flags=re.MULTILINE)
    with_secret = [job for job in jobs if "secrets." in job]
    assert [job.split(":")[0] for job in with_secret] == ["comment"]
    assert "environment: triton-comments" in with_secret[0]
    on_our_machines = [job for job in jobs if "self-hosted" in job]
    assert [job.split(":")[0] for job in on_our_machines] == ["measure", "confirm"]
    assert not any("secrets." in job or ": write" in job for job in on_our_machines)
