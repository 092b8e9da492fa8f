"""benchmark.yml, executed by act on a tiny history of two real releases: commits are chosen, compiled,
checked, merged, judged, said and published by the real scripts. Only the GPU is played, with samples that an
H200 took.

act does not enforce permissions, environments and concurrency: `make lint` looks at those.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.github_double.server import GitHubDouble, serve
from tests.workflows.chain import BOT, HOME_BOT, OURS, TRITON, Chain, ran
from tests.workflows.tiny_triton import SUBJECTS

ALL = ["plan", "compile", "accept", "measure", "store", "judge", "confirm", "comment", "pages"]


@dataclass
class Healthy:
    """The real chain, once for all tests here. ``compiled``: what its compile job handed in."""

    chain: Chain
    done: subprocess.CompletedProcess[str]
    compiled: Path
    site: Path


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Healthy]:
    folder = tmp_path_factory.mktemp("healthy")
    double = GitHubDouble()
    with serve(double) as double.url:
        chain = Chain(folder, double)
        done = chain.act("healthy")
        kept = folder / "kept"
        if (folder / "artifacts").is_dir():
            shutil.copytree(folder / "artifacts", kept)
        yield Healthy(chain, done, kept / "compiled-shard-001.txt", kept / "site")


@pytest.fixture
def chain(healthy: Healthy, tmp_path: Path) -> Iterator[Chain]:
    """Another checkout and GitHub, with the compile job played."""
    double = GitHubDouble()
    with serve(double) as double.url:
        yield Chain(tmp_path, double, ("time_commits", "confirm", "follow"), healthy.compiled)


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout[-8000:] + done.stderr[-2000:]


def test_a_healthy_run_goes_through_every_job(healthy: Healthy) -> None:
    assert healthy.done.returncode == 0, said(healthy.done)
    assert ran(healthy.done) == dict.fromkeys(ALL, True)


def test_what_was_measured_is_on_the_branch(healthy: Healthy) -> None:
    names = healthy.chain.saved()
    for commit in healthy.chain.commits:
        assert sum(f"/codegen-cuda-90/{commit[:8]}-" in name for name in names) == 1
        assert f"results/h200-580.159.04/{commit[:8]}-session.json" in names
        assert sum(name.startswith(f"evidence/records/cuda-90/{commit}/") for name in names) == 20
    assert sum(name.startswith("sessions/") for name in names) == 1
    assert sum(name.startswith("results/confirmations/") for name in names) == 1
    assert sum(name.startswith("results/ledger/") for name in names) == 1
    listed = [c["commit"] for c in json.loads(healthy.chain.show("results/commits.json"))]
    assert listed == healthy.chain.commits  # without the two that touch documents only
    assert not any(name.endswith("follow.json") or "/." in name for name in names)


def test_what_was_found_is_said_once(healthy: Healthy) -> None:
    before, after = (commit[:10] for commit in healthy.chain.commits)
    [issue] = healthy.chain.double.issues[OURS].values()
    assert issue["title"] == f"Regression: atomic_add on cuda:90, {before} to {after}"
    assert issue["user"]["login"] == HOME_BOT
    # Read from the code that was compiled here, timed, asked again, and whose it may be.
    assert (
        "| `atomic_add` | L1 invalidated after the writes of dQ | `cache_invalidations` | 0 -> 8 |"
        in (issue["body"])
    )
    assert "alone takes 27.9% more time" in issue["body"]
    assert "Checked again: different in 2 sessions" in issue["body"]
    assert f"`{SUBJECTS[1]}`" in issue["body"]


def test_both_sites_are_published(healthy: Healthy) -> None:
    before, after = (commit[:10] for commit in healthy.chain.commits)
    ours = (healthy.site / "index.html").read_text()
    assert before in ours
    assert after in ours
    index = json.loads((healthy.site / "asv" / "index.json").read_text())
    assert "codegen.CodeGeneration.track_cache_invalidations" in index["benchmarks"]
    assert set(index["revision_to_hash"].values()) >= set(healthy.chain.commits)
    graphs = list((healthy.site / "asv" / "graphs").rglob("attention_backward*track_kernel.json"))
    assert graphs, "the GPU time of the commits has graphs, too"


def test_the_next_run_measures_nothing_and_tells_the_pull_request_once(healthy: Healthy) -> None:
    chain, double = healthy.chain, healthy.chain.double
    names, commits = chain.saved(), chain.commits
    double.add_pull(TRITON, 6149, commits[1], SUBJECTS[1])
    double.tokens["app-token-of-the-test"] = (BOT, {TRITON})
    # Then Triton takes the App away: what was said stands, and the rest goes on.
    for scene in ("healthy", "uninstalled"):
        done = chain.act(scene, "pull-request")
        assert done.returncode == 0, said(done)
        assert "compile" not in ran(done)
        assert len(double.issues[OURS]) == 1
        [body] = double.bodies(TRITON, 6149, BOT)
        assert "alone takes 27.9% more time" in body
        assert ("no pull request is told" in done.stdout) == (scene == "uninstalled")
    ledger = [name for name in chain.saved() if name not in names]
    assert len(ledger) == 1
    assert ledger[0].startswith("results/ledger/")


def test_a_poisoned_artifact_stops_before_anything_is_kept(chain: Chain) -> None:
    done = chain.act("poisoned")
    assert done.returncode != 0
    assert "is not one of the planned commits" in done.stdout
    assert ran(done) == {"plan": True, "compile": True, "accept": False}
    assert chain.saved() == []
    assert chain.double.exchanges == []


def test_a_commit_that_does_not_build_is_a_datum(chain: Chain) -> None:
    done = chain.act("failing")
    assert done.returncode == 0, said(done)
    assert ran(done)["store"]
    failures = json.loads(chain.show("results/failures.json"))
    assert list(failures["cuda:90"]) == chain.commits[1:]
    assert chain.double.issues[OURS] == {}


def test_a_damaged_timed_file_is_refused_and_loses_nothing_else(chain: Chain) -> None:
    done = chain.act("damaged")
    assert done.returncode != 0
    assert "not a whole asv result file" in done.stdout
    assert ran(done) == {"plan": True, "compile": True, "accept": True, "measure": True, "store": False}
    names = chain.saved()
    assert sum("/codegen-cuda-90/" in name and "machine" not in name for name in names) == 2
    assert not any("h200" in name for name in names)
    assert chain.double.exchanges == []
