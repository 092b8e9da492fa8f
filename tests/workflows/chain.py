"""A run of benchmark.yml by act, in a copy of the checkout. GitHub's actions are played (actions/), GitHub is
the double, triton-lang/triton a tiny repository, the branch `results` a bare one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.github_double.server import GitHubDouble
from tests.workflows import tiny_triton
from tests.workflows.tiny_triton import git

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
BIN = Path(sys.executable).parent
OURS, HOME_BOT = "someone/atomwatch", "github-actions[bot]"
TRITON, BOT = "triton-lang/triton", "atomwatch[bot]"
TOKEN = "home-token-of-the-test-which-is-long-enough-to-be-masked"
_DEADLINE_S = 1500
# How this machine reaches its package index.
_NETWORK = re.compile(r"PIP_|UV_|SSL_|REQUESTS_|LD_LIBRARY_PATH|.*_PROXY", re.IGNORECASE)


def pinned_actions() -> set[tuple[str, str]]:
    """Every action that a workflow uses, with its pin."""
    return {
        (found[1], found[2])
        for path in WORKFLOWS
        for found in re.finditer(r"uses: ([\w/-]+)@(\S+)", path.read_text())
    }


@dataclass
class Chain:
    """``played``: scripts of the measuring half that stand-ins play. ``compiled``: what the real one made,
    for a stand-in of it."""

    folder: Path
    double: GitHubDouble
    played: tuple[str, ...] = ("time_commits", "confirm")
    compiled: Path | None = None
    commits: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        tree = self.folder / "tree"
        listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in filter(None, git(ROOT, *listed).split("\0")):
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, tree / name)
        for name in self.played:
            shutil.copy(HERE / "measuring" / f"{name}.py", tree / "scripts" / f"{name}.py")
        git(tree, "init", "--quiet", "--initial-branch=main")
        git(tree, "add", "--all")
        git(tree, "commit", "--quiet", "-m", "x")
        git(tree, "remote", "add", "origin", f"https://github.com/{OURS}.git")
        git(self.folder, "init", "--quiet", "--bare", "results.git")
        self.commits = tiny_triton.make(self.folder / "triton")
        for name in ("tools", "artifacts", "home"):
            (self.folder / name).mkdir()
        (self.folder / "tools" / "make").write_text(f'#!/bin/sh\nln -sfn "{BIN.parent}" .venv\n')
        (self.folder / "tools" / "make").chmod(0o755)
        self.double.add_repository(OURS)
        self.double.tokens[TOKEN] = (HOME_BOT, {OURS})

    def act(self, scene: str, mode: str = "own-issue") -> subprocess.CompletedProcess[str]:
        event = self.folder / "event.json"
        event.write_text(f'{{"inputs": {{"mode": "{mode}", "limit": "40", "shards": "1"}}}}')
        shutil.rmtree(self.folder / "artifacts")
        (self.folder / "artifacts").mkdir()
        stubs = [
            f"--local-repository={action}@{ref}={HERE / 'actions' / action.split('/')[1]}"
            for action, ref in pinned_actions()
            if action != "actions/checkout"  # act copies the tree instead
        ]
        command = [
            str(BIN / "act"), "workflow_dispatch", "--eventpath", str(event),
            "--workflows", ".github/workflows/benchmark.yml",
            "--platform=ubuntu-24.04=-self-hosted", "--platform=self-hosted=-self-hosted",
            "--container-daemon-socket=-", "--concurrent-jobs=1",
            f"--secret=GITHUB_TOKEN={TOKEN}", f"--var=ATOMWATCH_TRITON_URL=file://{self.folder / 'triton'}",
            *[f"--env={name}={value}" for name, value in self._environment(scene).items()], *stubs,
        ]  # fmt: skip
        environment = {
            "PATH": f"{self.folder / 'tools'}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
        }
        return subprocess.run(
            command, cwd=self.folder / "tree", env=environment, capture_output=True, text=True,
            timeout=_DEADLINE_S, check=False,
        )  # fmt: skip

    def _environment(self, scene: str) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if _NETWORK.match(name)},
            "ARTIFACTS": str(self.folder / "artifacts"),
            "SCENE": scene,
            "COMPILED": str(self.compiled),
            "ATOMWATCH_RESULTS_URL": f"file://{self.folder / 'results.git'}",
            "GITHUB_API_URL": self.double.url,
        }

    def saved(self) -> list[str]:
        """Files of the branch `results`."""
        place = self.folder / "results.git"
        if not git(place, "branch", "--list", "results"):
            return []
        return git(place, "ls-tree", "-r", "--name-only", "results").split()

    def show(self, name: str) -> str:
        return git(self.folder / "results.git", "show", f"results:{name}")


def ran(done: subprocess.CompletedProcess[str]) -> dict[str, bool]:
    """{job: whether it succeeded}; a job that never started is not in it."""
    found = {}
    for line in done.stdout.splitlines():
        if match := re.match(r"\[benchmark/([a-z]+)[-0-9 ]*\].*Job (succeeded|failed)", line):
            found[match[1]] = found.get(match[1], True) and match[2] == "succeeded"
    return found
