"""The whole pipe on two real releases with the real asv, in a copy of the project: downloads 0.5 GB."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from end_to_end_project import copy_project

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git would clone, with nothing measured, and its own home for asv's machine list."""
    copy = copy_project(tmp_path_factory.mktemp("tracked") / "project")
    shutil.rmtree(copy / "benchmarks" / "recorded", ignore_errors=True)
    return copy


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )


@pytest.fixture(scope="module")
def tracked(project: Path) -> subprocess.CompletedProcess[str]:
    return run(project, "scripts.track", "--releases", "3.1.0 3.2.0")


def test_track_says_first_what_it_will_download(tracked: subprocess.CompletedProcess[str]) -> None:
    assert tracked.returncode == 0, tracked.stdout + tracked.stderr
    assert tracked.stdout.index("Download: about 0.5 GB") < tracked.stdout.index("measuring")


def test_atomic_add_became_vectorised_and_inline_asm_lost_a_conversion(
    project: Path, tracked: subprocess.CompletedProcess[str]
) -> None:
    assert tracked.returncode == 0, tracked.stdout + tracked.stderr
    flagged = run(project, "scripts.flag_regressions", "--format", "json")
    assert flagged.returncode == 1, flagged.stderr
    findings = json.loads(flagged.stdout)["findings"]
    [finding] = [
        f
        for f in findings
        if (f["candidate"], f["reference"], f["case"]["head_dim"]) == ("atomic_add", "inline_asm", 64)
    ]
    assert finding["verdict"] == "improvement"
    assert (finding["before"]["label"], finding["after"]["label"]) == ("3.1.0", "3.2.0")
    # TTGIR is the same on dQ's path: PR 4971 changed how the atomic is lowered.
    assert finding["first_changed_stage"] == "llir"
    changes = {(c["variant"], c["metric"]): (c["before"], c["after"]) for c in finding["codegen_changes"]}
    assert changes["atomic_add", "dq_vector_width"] == (1, 4)
    assert changes["inline_asm", "dq_layout_conversions"] == (1, 0)


def test_what_a_release_lacks_is_skipped_and_said(tracked: subprocess.CompletedProcess[str]) -> None:
    assert "4 skipped" in tracked.stdout  # descriptor_add, two head dims, two releases
    assert "0 failed" in tracked.stdout


def test_a_second_run_measures_nothing(project: Path, tracked: subprocess.CompletedProcess[str]) -> None:
    before = sorted((p, p.stat().st_mtime_ns) for p in (project / ".asv" / "results").rglob("*-*.json"))
    again = run(project, "scripts.track", "--releases", "3.1.0 3.2.0")
    assert "2 of 2 need no work" in again.stdout
    assert before == sorted(
        (p, p.stat().st_mtime_ns) for p in (project / ".asv" / "results").rglob("*-*.json")
    )


def test_comments_page_and_evidence_are_there_and_whole(
    project: Path, tracked: subprocess.CompletedProcess[str]
) -> None:
    comment = project / ".asv" / "report" / "comments" / "3.1.0_3.2.0_atomic_add_cuda-90.md"
    assert "wider writes of dQ" in comment.read_text()
    code = project / ".asv" / "report" / "code" / "cuda-90_hd64-causal-fp16.html"
    assert "dq_vector_width" in code.read_text()
    verified = run(project, "scripts.verify_evidence")
    assert verified.returncode == 0, verified.stdout


def test_a_flipped_byte_is_found(project: Path, tracked: subprocess.CompletedProcess[str]) -> None:
    damaged = next((project / ".cache" / "evidence" / "objects").rglob("*.zst"))
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(bytes(content))
    verified = run(project, "scripts.verify_evidence")
    assert verified.returncode == 1
    assert str(damaged) in verified.stdout
