"""Runs asv, one commit a call, and publishes what it wrote only when it is whole.

asv writes its files in place, loses the current commit on an interrupt and overwrites good results with
nulls when a build fails. So it writes into a staging folder of its own, and a file moves to the results
by rename after it was read back, checked against the suite and found to be of the right commit.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import json5
import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import STATUS_IN_STORE, Commit, VariantFacts
from scripts.tracker.processes import memory_bytes, stop_session
from scripts.tracker.results import (
    BuildFailure,
    CommitResults,
    codegen_measurements,
    read_commit_results,
    read_failures,
)
from scripts.tracker.store import EvidenceStore, atomic_write
from scripts.tracker.workspace import Workspace

# asv's own timeouts count silence; this one counts, for a download, an install and 26 compilations.
COMMIT_DEADLINE_S = 2700
_PATH_KEYS = ("benchmark_dir", "env_dir", "html_dir")


# As scripts/builder/settings.py has it: a build ends itself, with its reason, before we end it.
_BUILD_DEADLINE_S = 7200.0


def build_deadline_s() -> float:
    """What a build from source may take. Raises TrackerError for a setting that is no number."""
    text = os.environ.get("ATOMWATCH_BUILD_DEADLINE_S") or str(_BUILD_DEADLINE_S)
    try:
        return float(text)
    except ValueError as error:
        raise TrackerError(f"ATOMWATCH_BUILD_DEADLINE_S={text!r} is no number of seconds") from error


class Suite(msgspec.Struct, frozen=True):
    """What a complete result has: asv's `version`, benchmark names, parameters, records in the store; and
    the facts of each variant."""

    version: str
    benchmarks: list[str]
    params: list[list[str]]
    param_names: list[str]
    variants: dict[str, VariantFacts]
    records: int = 0
    flops: list[dict[str, Any]] = []


def describe_suite(root: Path, module: str, target: str) -> Suite:
    """Ask the measuring half, in a process of its own, what one of its suites has."""
    done = subprocess.run(  # noqa: S603 - a module of ours
        [sys.executable, "-m", module], cwd=root, capture_output=True, text=True,
        env={**os.environ, "ATOMWATCH_TARGET": target}, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise TrackerError(last.removeprefix("ValueError: "))
    return msgspec.json.decode(done.stdout, type=Suite)


class DeadlineError(TrackerError):
    """asv was stopped: of this commit nothing is known, of the next one nothing is said."""


# What pip and the system say, and what it means to the user.
_CAUSES = {
    "No space left on device": "the disk is full: free some space and run the same command again",
    "NewConnectionError": "the package index is not reachable: check the network",
    "Temporary failure in name resolution": "the package index is not reachable: check the network",
    "ProxyError": "the proxy refuses: check the network and pip's settings",
}


def is_complete(results: CommitResults, suite: Suite, evidence: EvidenceStore) -> bool:
    """Whether a commit needs no more work: every benchmark of these very sources has its result.

    Each result must have its whole record in the store: a null counts only with the compiler's refusal
    (otherwise something else went wrong), a number only with its texts (later work needs them).
    """
    params = tuple(tuple(axis) for axis in suite.params)
    for name in suite.benchmarks:
        row = results.benchmarks.get(name)
        if row is None or row.version != suite.version or row.params != params:
            return False
    # asv keeps rows of benchmarks that the suite no longer has.
    rows = {name: results.benchmarks[name] for name in suite.benchmarks}
    for measurement in codegen_measurements(replace(results, benchmarks=rows)):
        try:
            record = evidence.load(
                measurement.target, measurement.commit, measurement.case, measurement.variant
            )
        except TrackerError:
            return False  # a damaged record is made again
        wanted = STATUS_IN_STORE[measurement.status]
        if record is None or (record.status, record.fingerprint) != (wanted, suite.version):
            return False
        if not evidence.has_objects(record):
            return False
    return True


def machine_name(target: str) -> str:
    """Generated code depends on the target and not on the host, so the target is asv's machine."""
    return f"codegen-{target.replace(':', '-')}"


class AsvHarness:
    """Measures commits of one repository for one target. ``repository``: a full local clone; ``lock``: a
    descriptor that asv inherits; ``build_s``: what a build from source may take. Raises TrackerError for a
    checkout that asv cannot work in."""

    def __init__(
        self, workspace: Workspace, repository: Path, target: str, lock: int, build_s: float = 0.0
    ) -> None:
        if any(character.isspace() for character in str(workspace.root)):
            raise TrackerError(
                f"{workspace.root}: asv cannot work in a folder with a space: move the checkout"
            )
        self.workspace = workspace
        self._lock = lock
        self._build_s = build_s
        self.target = target
        self.machine = machine_name(target)
        self.suite = describe_suite(workspace.root, "benchmarks.codegen", target)
        self.peak_memory_bytes = 0  # of asv and all that it started, seen once a second
        self._config = workspace.cache / "asv.conf.json"
        config = derive_config(workspace.root / "asv.conf.json", repository, workspace.staging)
        atomic_write(self._config, json.dumps(config, indent=1).encode())

    def existing(self, commit: str) -> CommitResults | None:
        """The published results of a commit. A damaged file is set aside and counts as not there."""
        for path in sorted((self.workspace.results / self.machine).glob(f"{commit[:8]}-*.json")):
            try:
                results = read_commit_results(path)
            except TrackerError as error:
                aside = path.with_suffix(".damaged")
                path.replace(aside)
                print(
                    f"warning: {error}\nIt is now {aside.name}; the commit is measured again.",
                    file=sys.stderr,
                )
                continue
            if results.commit == commit:
                return results
        return None

    def is_done(self, commit: str) -> bool:
        results = self.existing(commit)
        return results is not None and is_complete(results, self.suite, self.workspace.evidence)

    def measure(self, commit: Commit, on_tick: Callable[[int], None]) -> BuildFailure | None:
        """Measure one commit and publish its results; the reason if that was not possible.

        ``on_tick`` is called about once a second with the number of records that the store has.
        Raises TrackerError if asv itself cannot run, KeyboardInterrupt after stopping it.
        """
        staged = self.workspace.staging / self.machine
        shutil.rmtree(staged, ignore_errors=True)
        register_machine(self.machine, self.target)
        report = self.workspace.staging / "build-failure.json"
        report.unlink(missing_ok=True)
        log = self.workspace.logs / f"{commit.label}-{self.machine}.log"
        status = self._run_asv(commit, log, report, on_tick)
        if report.exists():
            try:
                return msgspec.json.decode(report.read_bytes(), type=BuildFailure)
            except msgspec.MsgspecError:
                return BuildFailure(f"its report is not whole (disk full?); see {log}", transient=True)
        written = sorted(staged.glob(f"{commit.commit[:8]}-*.json"))
        if not written:
            raise TrackerError(f"asv wrote no result (exit status {status}): {_last_words(log)}; see {log}")
        results = read_commit_results(written[0])
        if results.commit != commit.commit or not is_complete(results, self.suite, self.workspace.evidence):
            return BuildFailure(f"{_last_words(log)}; see {log}", transient=True)
        self._publish(written[0])
        return None

    def _publish(self, written: Path) -> None:
        """Move a checked result, and what asv wrote about machine and benchmarks, by rename."""
        folder = self.workspace.results / self.machine
        atomic_write(folder / "machine.json", (written.parent / "machine.json").read_bytes())
        benchmarks = (self.workspace.staging / "benchmarks.json").read_bytes()
        atomic_write(self.workspace.results / "benchmarks.json", benchmarks)
        atomic_write(folder / written.name, written.read_bytes())

    def _run_asv(self, commit: Commit, log: Path, report: Path, on_tick: Callable[[int], None]) -> int:
        log.parent.mkdir(parents=True, exist_ok=True)
        report.parent.mkdir(parents=True, exist_ok=True)
        # forkserver: 324 short benchmarks would take minutes if each started a Python.
        command = [sys.executable, "-m", "asv", "run", f"{commit.commit}^!", "--config", str(self._config),
                   "--machine", self.machine, "--launch-method", "forkserver", "--show-stderr",
                   "--bench", r"^codegen\."]  # fmt: skip
        # Inside a git hook GIT_DIR names another repository, and asv would check commits out there.
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "ATOMWATCH_TARGET": self.target,
            "ATOMWATCH_EVIDENCE": str(self.workspace.evidence.root),
            "ATOMWATCH_WHEELHOUSE": str(self.workspace.cache / "wheelhouse"),
            "ATOMWATCH_BUILT_WHEELS": str(self.workspace.built_wheels),
            "ATOMWATCH_BUILD_CACHE": str(self.workspace.build_cache),
            "ATOMWATCH_BUILD_LOG": str(self.workspace.logs / f"{commit.label}-build.log"),
            "ATOMWATCH_BUILD_REPORT": str(report),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - asv of our own environment
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=environment, cwd=self.workspace.root, start_new_session=True,
                pass_fds=(self._lock,),
            )  # fmt: skip
            return self._wait(process, commit.commit, log, on_tick)

    def _wait(
        self, process: subprocess.Popen[bytes], commit: str, log: Path, on_tick: Callable[[int], None]
    ) -> int:
        started_s = time.monotonic()
        try:
            while True:
                try:
                    return process.wait(timeout=1.0)
                except subprocess.TimeoutExpired:
                    on_tick(self.workspace.evidence.count_records(self.target, commit))
                    self.peak_memory_bytes = max(self.peak_memory_bytes, memory_bytes(process.pid))
                deadline_s = COMMIT_DEADLINE_S + self._build_s
                if time.monotonic() - started_s > deadline_s:
                    minutes = f"{deadline_s / 60:.0f}"
                    raise DeadlineError(f"asv did not end within {minutes} min and was stopped; see {log}")
        finally:
            stop_session(process)


def derive_config(real: Path, repository: Path, results: Path) -> dict[str, Any]:
    """asv.conf.json for another repository and results folder, with absolute paths; else the same."""
    config: dict[str, Any] = json5.loads(real.read_text())
    root = real.parent
    config |= {key: str(root / config[key]) for key in _PATH_KEYS}
    config |= {"repo": str(repository), "results_dir": str(results)}
    config["build_command"] = [line.replace("{conf_dir}", str(root)) for line in config["build_command"]]
    return config


def register_machine(name: str, target: str) -> None:
    """Enter our machine into asv's list in the home folder, leaving other entries as they are.

    All fields are frozen by hand: asv keys its graphs by them, and would fill in the kernel's version.
    """
    path = Path("~/.asv-machine.json").expanduser()
    try:
        machines = json.loads(path.read_text())
        if not isinstance(machines, dict):
            raise TypeError("not an object")
    except FileNotFoundError:
        machines = {"version": 1}
    except (ValueError, TypeError) as error:
        raise TrackerError(f"{path}: asv's list of machines is damaged ({error}); delete it") from error
    entry = {"machine": name, "target": target, "gpu": "none: compiled only", "os": "any", "arch": "any",
             "cpu": "any", "num_cpu": "any", "ram": "any"}  # fmt: skip
    if machines.get(name) != entry:
        atomic_write(path, json.dumps({**machines, name: entry}, indent=4).encode())


def write_json(path: Path, value: Any) -> None:
    """Write one of our own files in a results folder: readable, and whole or not at all."""
    atomic_write(path, msgspec.json.format(msgspec.json.encode(value)) + b"\n")


def record_failure(results: Path, target: str, commit: str, failure: BuildFailure | None) -> None:
    """Remember why a commit has no results; None: it has them now."""
    failures = read_failures(results)
    of_target = failures.setdefault(target, {})
    if failure is None and commit not in of_target:
        return
    if failure is None:
        del of_target[commit]
    else:
        of_target[commit] = failure
    write_json(results / "failures.json", failures)


def _last_words(log: Path) -> str:
    """Why asv failed: a cause that the user can mend, else the last line about an error, else the last."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    for sign, remedy in _CAUSES.items():
        if any(sign in line for line in lines):
            return remedy
    telling = [line for line in lines if "Error" in line or "error:" in line]
    return (telling or lines or ["no output"])[-1][:300]
