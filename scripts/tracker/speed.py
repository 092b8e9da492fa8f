"""How fast the judgement of a long history is, and `asv publish` over the same one beside it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scripts.tracker.detect import detect
from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Role
from scripts.tracker.policy import DetectionPolicy
from scripts.tracker.report import findings_json
from scripts.tracker.series import Panel
from scripts.tracker.steps import Judgement
from scripts.tracker.worlds import panel_of

VARIANTS = {
    "atomic_add": Role.CANDIDATE,
    "atomic_add_relaxed": Role.CANDIDATE,
    "descriptor_add": Role.CANDIDATE,
    "inline_asm": Role.REFERENCE,
    "inline_asm_v2": Role.REFERENCE,
    "store": Role.REFERENCE,
    "two_pass": Role.REFERENCE,
    "none": Role.CONTROL,
    "none_keep_dq": Role.CONTROL,
}
CASES = 40
_SPREAD = 0.005
_CHANGES = 20
_BENCHMARK = "attention_backward.AttentionBackward.track_kernel"


@dataclass(frozen=True, slots=True)
class Speed:
    """Wall seconds; ``cpu_s`` is of detecting and writing, which other work on the machine stretches less.

    ``peak_mib``: of this process, with the history itself. ``asv_publish_s``: None if it was not run.
    """

    commits: int
    cases: int
    variants: int
    findings: int
    detect_s: float
    write_s: float
    cpu_s: float
    peak_mib: float
    asv_publish_s: float | None


def long_history(commits: int) -> Panel:
    """Noise, and twenty steps of 5 % of one variant in every case. The same every time."""
    random = np.random.default_rng(4971)
    log_s = random.standard_t(4, (CASES, len(VARIANTS), commits)) * _SPREAD / np.sqrt(2) + np.log(1e-3)
    for place in random.integers(commits // 10, commits, _CHANGES):
        log_s[:, random.integers(0, len(VARIANTS)), place:] += np.log1p(0.05)
    return panel_of(log_s, np.arange(commits), list(VARIANTS))


def measure(commits: int, policy: DetectionPolicy, beside_asv: bool) -> Speed:
    """Detect and write the findings, in seconds of wall time. Raises TrackerError if asv does not run."""
    panel = long_history(commits)
    with tempfile.TemporaryDirectory() as folder:
        started, cpu_started = time.perf_counter(), time.process_time()
        findings = detect(panel, VARIANTS, policy, Judgement())
        detected = time.perf_counter()
        (Path(folder) / "findings.json").write_text(findings_json(Judgement(findings)))
        written, cpu_written = time.perf_counter(), time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        publish_s = _publish(panel, Path(folder)) if beside_asv else None
    return Speed(
        commits,
        CASES,
        len(VARIANTS),
        len(findings),
        detected - started,
        written - detected,
        cpu_written - cpu_started,
        peak,
        publish_s,
    )


def _publish(panel: Panel, folder: Path) -> float:
    """Seconds that `asv publish` takes for the same values."""
    _write_repository(folder / "repo", len(panel.commits))
    hashes = _git(folder / "repo", "rev-list", "--reverse", "--first-parent", "main").split()
    _write_results(panel, hashes, folder / "results")
    configuration = {
        "version": 1,
        "project": "speed",
        "repo": str(folder / "repo"),
        "branches": ["main"],
        "environment_type": "virtualenv",
        "benchmark_dir": str(folder / "benchmarks"),
        "results_dir": str(folder / "results"),
        "html_dir": str(folder / "html"),
        "env_dir": str(folder / "env"),
    }
    (folder / "benchmarks").mkdir()
    (folder / "asv.conf.json").write_text(json.dumps(configuration))
    started = time.perf_counter()
    _run([sys.executable, "-m", "asv", "publish", "--config", str(folder / "asv.conf.json")], folder)
    return time.perf_counter() - started


def _write_repository(path: Path, commits: int) -> None:
    """One commit a second, empty, by git's own bulk format."""
    path.mkdir()
    _git(path, "init", "-q", "-b", "main")
    who = "atomwatch <atomwatch@example.invalid>"
    stream = "".join(
        f"commit refs/heads/main\ncommitter {who} {1_700_000_000 + i} +0000\ndata 0\n\n"
        for i in range(commits)
    )
    _git(path, "fast-import", "--quiet", stdin=stream)


def _write_results(panel: Panel, hashes: list[str], results: Path) -> None:
    """asv's files, API 2, values without samples."""
    machine = results / "speed"
    machine.mkdir(parents=True)
    about = {"machine": "speed", "os": "", "arch": "", "cpu": "", "num_cpu": "", "ram": ""}
    (machine / "machine.json").write_text(json.dumps({**about, "version": 1}))
    params = [[repr(v) for v in panel.variants], [repr(c.n_ctx) for c in panel.cases]]
    benchmark = {
        "name": _BENCHMARK,
        "code": "",
        "type": "track",
        "unit": "seconds",
        "params": params,
        "param_names": ["variant", "n_ctx"],
        "version": "1",
        "timeout": 60,
    }
    (results / "benchmarks.json").write_text(json.dumps({_BENCHMARK: benchmark, "version": 2}))
    seconds = np.exp(panel.log_s)
    for i, commit in enumerate(hashes):
        document = {
            "commit_hash": commit,
            "env_name": "speed",
            "date": (1_700_000_000 + i) * 1000,
            "params": about,
            "python": "3",
            "requirements": {},
            "env_vars": {},
            "result_columns": ["result", "params", "version"],
            "results": {_BENCHMARK: [seconds[:, :, i].T.ravel().tolist(), params, "1"]},
            "durations": {},
            "version": 2,
        }
        (machine / f"{commit[:8]}-speed.json").write_text(json.dumps(document))


def _git(path: Path, *arguments: str, stdin: str | None = None) -> str:
    return _run(["git", "-C", str(path), *arguments], path, stdin)


def _run(command: list[str], folder: Path, stdin: str | None = None) -> str:
    done = subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True)  # noqa: S603 - ours
    if done.returncode:
        raise TrackerError(f"{' '.join(command[:4])} failed: {done.stderr[-500:] or done.stdout[-500:]}")
    return done.stdout
