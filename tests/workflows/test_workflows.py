"""The workflows, executed by act: real scripts of the judging half on a tiny history.

The measuring half is played (measuring/), and so are GitHub's actions (actions/).
act does not enforce permissions, environments and concurrency: `make lint` looks at those.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.github_double.server import GitHubDouble, serve

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
BIN = Path(sys.executable).parent
OURS, HOME_BOT = "someone/atomwatch", "github-actions[bot]"
TOKEN = "home-token-of-the-test-which-is-long-enough-to-be-masked"


@pytest.fixture
def double() -> Iterator[GitHubDouble]:
    found = GitHubDouble()
    found.add_repository(OURS)
    found.tokens[TOKEN] = (HOME_BOT, {OURS})
    with serve(found) as found.url:
        yield found


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@dataclass
class Run:
    """A run of act in a copy of the checkout, with a bare repository as the place of the branch `results`."""

    folder: Path
    double: GitHubDouble

    def prepare(self) -> None:
        tree = self.folder / "tree"
        listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in filter(None, git(ROOT, *listed).split("\0")):
            if (ROOT / name).is_file() and not name.startswith("benchmarks/recorded"):
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, tree / name)
        for played in (HERE / "measuring").glob("*.py"):
            shutil.copy(played, tree / "scripts" / played.name)
        git(tree, "init", "--quiet", "--initial-branch=main")
        git(tree, "add", "--all")
        git(tree, "commit", "--quiet", "-m", "x")
        git(tree, "remote", "add", "origin", f"https://github.com/{OURS}.git")
        git(self.folder, "init", "--quiet", "--bare", "results.git")
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "make").write_text(f'#!/bin/sh\nln -sfn "{BIN.parent}" .venv\n')
        (tools / "make").chmod(0o755)
        (self.folder / "artifacts").mkdir()
        (self.folder / "home").mkdir()

    def act(self, scene: str, mode: str = "own-issue") -> subprocess.CompletedProcess[str]:
        event = self.folder / "event.json"
        event.write_text(f'{{"inputs": {{"mode": "{mode}", "limit": "40"}}}}')
        stubs = [
            f"--local-repository={action}@{ref}={HERE / 'actions' / action.split('/')[1]}"
            for action, ref in pinned_actions()
            if action != "actions/checkout"  # act copies the tree instead
        ]
        values = {
            "ARTIFACTS": str(self.folder / "artifacts"),
            "SCENE": scene,
            "ATOMWATCH_RESULTS_URL": f"file://{self.folder / 'results.git'}",
            "GITHUB_API_URL": self.double.url,
        }
        command = [
            str(BIN / "act"),
            "workflow_dispatch",
            "--eventpath",
            str(event),
            "--workflows",
            ".github/workflows/benchmark.yml",
            "--platform=ubuntu-24.04=-self-hosted",
            "--platform=self-hosted=-self-hosted",
            "--container-daemon-socket=-",
            "--concurrent-jobs=1",
            f"--secret=GITHUB_TOKEN={TOKEN}",
            *[f"--env={name}={value}" for name, value in values.items()],
            *stubs,
        ]
        environment = {
            "PATH": f"{self.folder / 'tools'}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
        }
        return subprocess.run(
            command,
            cwd=self.folder / "tree",
            env=environment,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )

    def saved(self) -> list[str]:
        """Files of the branch `results`."""
        refs = git(self.folder / "results.git", "branch", "--list", "results")
        return (
            git(self.folder / "results.git", "ls-tree", "-r", "--name-only", "results").split()
            if refs
            else []
        )


def pinned_actions() -> set[tuple[str, str]]:
    """Every action that a workflow uses, with its pin."""
    return {
        (found[1], found[2])
        for path in WORKFLOWS
        for found in re.finditer(r"uses: ([\w/-]+)@(\S+)", path.read_text())
    }


@pytest.fixture
def run(tmp_path: Path, double: GitHubDouble) -> Run:
    found = Run(tmp_path, double)
    found.prepare()
    return found


def ran(done: subprocess.CompletedProcess[str]) -> dict[str, bool]:
    """{job: whether it succeeded}; a job that never started is not in it."""
    found = {}
    for line in done.stdout.splitlines():
        if match := re.match(r"\[benchmark/([a-z]+)[-0-9 ]*\].*Job (succeeded|failed)", line):
            found[match[1]] = found.get(match[1], True) and match[2] == "succeeded"
    return found


def test_a_healthy_run_measures_saves_says_and_publishes(run: Run) -> None:
    done = run.act("healthy")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    jobs = ["plan", "compile", "accept", "measure", "store", "judge", "comment", "pages"]
    assert ran(done) == dict.fromkeys(jobs, True)
    [issue] = run.double.issues[OURS].values()
    assert issue["title"] == "Regression: atomic_add on cuda:90, 3.1.0 to 3.2.0"
    names = run.saved()
    assert sum("/codegen-cuda-90/" in name for name in names) == 2
    assert sum(name.startswith("results/ledger/") for name in names) == 1
    assert (run.folder / "artifacts" / "deploy-pages-ran").exists()
    # The next run finds its own words and says nothing twice.
    shutil.rmtree(run.folder / "artifacts")
    (run.folder / "artifacts").mkdir()
    run.double.add_repository("triton-lang/triton")
    run.double.tokens["app-token-of-the-test"] = ("atomwatch[bot]", {"triton-lang/triton"})
    again = run.act("healthy", "pull-request")
    assert again.returncode == 0, again.stdout[-6000:]
    assert len(run.double.issues[OURS]) == 1
    assert run.saved() == names
    assert "no pull request told: atomic_add on cuda:90" in again.stdout


def test_a_poisoned_artifact_stops_before_anything_is_kept(run: Run) -> None:
    done = run.act("poisoned")
    assert done.returncode != 0
    assert "is not one of the planned commits" in done.stdout
    assert ran(done) == {"plan": True, "compile": True, "accept": False}
    assert run.saved() == []
    assert run.double.exchanges == []


def test_a_commit_that_does_not_build_is_a_datum(run: Run) -> None:
    done = run.act("failing")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert ran(done)["store"]
    assert "results/failures.json" in run.saved()
    assert run.double.issues[OURS] == {}


def test_two_writers_of_the_branch_both_land(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "results.git")
    url = f"file://{tmp_path / 'results.git'}"

    def call(folder: Path, step: str) -> None:
        script = ROOT / ".github" / "scripts" / "results.sh"
        done = subprocess.run([script, step, url], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def measure(folder: Path, name: str) -> None:
        place = folder / ".asv" / "results" / "ledger"
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
