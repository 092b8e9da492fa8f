"""A checkout that follows a small history of Triton's shape: the real driver, builder, pip and git; a
stand-in for asv, which builds, writes its files in place and in pieces as asv does, and takes its time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
from builders import SUITE, TIMED_SUITE
from history_builders import Repository
from triton_stand_in import NAME, write_project, write_wheel

from scripts.tracker.processes import _session_members
from scripts.tracker.workspace import CommitsWorkspace

REAL = Path(__file__).resolve().parents[2]

ASV = """
import json, os, pathlib, subprocess, sys, time
sys.path[:0] = [TESTS]
from builders import TABLE, asv_document, record_document, write_asv, write_record
from scripts.tracker.model import Commit
root = pathlib.Path.cwd()
arguments = sys.argv[1:]
sha = arguments[1].removesuffix("^!")
config = json.loads(pathlib.Path(arguments[arguments.index("--config") + 1]).read_text())
machine = arguments[arguments.index("--machine") + 1]
results = root / ".asv" / "commits" / "results" / machine
with (root / "asv.log").open("a") as log:
    again = "AGAIN" if list(results.glob(sha[:8] + "-*.json")) else "start"
    print(again, sha, file=log)
project, out = root / ".asv" / "env" / "project", root / ".asv" / "env" / "cache" / sha
if not project.exists():
    subprocess.run(["git", "clone", "--quiet", "--shared", config["repo"], project], check=True)
subprocess.run(["git", "-C", project, "fetch", "--quiet", "origin", "main"], check=True)
(project / ".git" / "index.lock").unlink(missing_ok=True)
subprocess.run(["git", "-C", project, "checkout", "--quiet", "-f", sha], check=True)
subprocess.run(["git", "-C", project, "clean", "-fdxq"], check=True)
build = [sys.executable, "-m", "scripts.build_triton", "--commit", sha, "--src", project, "--out", out]
# A process group of its own, as asv gives to what it starts.
if subprocess.run(build, process_group=0).returncode:
    sys.exit(2)
code = (project / "lib" / "code.txt").read_text().strip()
time.sleep(0.2)
commit = Commit(sha, sha[:10])
width = float(code[-1])
store = pathlib.Path(os.environ["ATOMWATCH_EVIDENCE"])
record = record_document(commit=commit)
record["kernels"][0]["identity"] = code
write_record(store, record)
table = {"atomic_add": {**TABLE["atomic_add"], "dq_writes": width}}
text = json.dumps(asv_document(commit, table))
folder = pathlib.Path(config["results_dir"]) / machine
folder.mkdir(parents=True, exist_ok=True)
(folder / "machine.json").write_text(json.dumps({"machine": machine}))
(folder.parent / "benchmarks.json").write_text('{"version": 2}')
with (folder / (sha[:8] + "-virtualenv-py3.11.json")).open("w") as file:
    for start in range(0, len(text), 300):
        file.write(text[start:start + 300])
        file.flush()
        time.sleep(0.02)
"""


def write_triton(folder: Path) -> Repository:
    """Nine commits: two that do not apply, one that does not compile, a change of code at the sixth."""
    triton = Repository(folder)
    write_project(folder)
    wheels: dict[str, str] = {}
    broken = "raise SystemExit('lib/x.cpp:1:1: error: broken')"
    for n, (path, code, plan) in enumerate(
        [
            ("lib/a.cpp", "width 8", ""),
            ("docs/index.rst", "width 8", ""),
            ("lib/b.cpp", "width 8", ""),
            ("lib/c.cpp", "width 8", broken),
            ("lib/d.cpp", "width 8", ""),
            ("lib/e.cpp", "width 2", ""),
            ("third_party/amd/lib/x.cpp", "width 2", ""),
            ("lib/f.cpp", "width 2", ""),
            ("lib/g.cpp", "width 2", ""),
        ]
    ):
        (folder / "lib").mkdir(exist_ok=True)
        (folder / "lib" / "code.txt").write_text(code)
        (folder / "python" / "plan.py").write_text(plan)
        sha = triton.commit(f"Change {n} (#{n})", path)
        if not plan:
            wheels[sha] = NAME
    # Built elsewhere, which is quicker; what comes later is built from source.
    write_wheel(folder.parent / "wheels" / NAME)
    (folder.parent / "wheels" / "index.json").write_text(json.dumps(wheels))
    return triton


class FollowRig:
    """``root``: the checkout. Its own home, so that asv's list of machines is not touched."""

    def __init__(self, root: Path, source: Path) -> None:
        self.root = root
        self.source = source
        self.workspace = CommitsWorkspace(root)
        root.mkdir(parents=True)
        shutil.copytree(REAL / "scripts", root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(REAL / "asv.conf.json", root)
        for package in ("asv", "benchmarks"):
            (root / package).mkdir()
            (root / package / "__init__.py").touch()
        (root / "asv" / "__main__.py").write_text(ASV.replace("TESTS", repr(str(REAL / "tests" / "unit"))))
        for module, suite in (
            ("codegen", SUITE),
            ("attention_backward", TIMED_SUITE),
            ("controls", TIMED_SUITE),
        ):
            described = msgspec.json.encode(suite).decode()
            (root / "benchmarks" / f"{module}.py").write_text(f"print({described!r})\n")

    def command(self, script: str, *options: str) -> list[str]:
        return [sys.executable, "-m", f"scripts.{script}", *options]

    @property
    def environment(self) -> dict[str, str]:
        mine = ("ATOMWATCH_", "TRITON_", "LLVM_", "GIT_", "MAX_JOBS", "PIP_")
        own = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
        prebuilt = str(self.source.parent / "wheels" / "index.json")
        return {**own, "HOME": str(self.root), "COLUMNS": "200", "ATOMWATCH_PREBUILT": prebuilt}

    def run(self, script: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(script, *options), cwd=self.root, env={**self.environment, **environment},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def follow(self, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("follow", "--source", str(self.source), *options, **environment)

    def start(self) -> subprocess.Popen[bytes]:
        with (self.root / "driver.log").open("ab") as log:
            return subprocess.Popen(
                self.command("follow", "--source", str(self.source)), cwd=self.root, env=self.environment,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def end(self, driver: subprocess.Popen[bytes], everything: bool) -> None:
        """Kill the driver alone, or everything that it started, as a machine that restarts does."""
        sessions = {driver.pid}
        if everything:
            for member in _children(driver.pid):
                sessions.add(os.getsid(member))
        driver.kill()
        driver.wait()
        for member in (m for session in sessions - {os.getsid(0)} for m in _session_members(session)):
            if everything:
                try:
                    os.kill(member, signal.SIGKILL)
                except ProcessLookupError:
                    continue

    def asv_log(self) -> list[tuple[str, str]]:
        lines = (self.root / "asv.log").read_text().splitlines()
        return [(line.split()[0], line.split()[1]) for line in lines]

    def books(self) -> dict[str, str]:
        """Every file of the results and of the evidence, but those with times of their own."""
        found = {}
        for folder in (self.workspace.results, self.workspace.evidence.root):
            for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "follow.json"):
                found[str(path.relative_to(self.root))] = path.read_text(errors="replace")
        return found

    def failures(self) -> dict[str, object]:
        return dict(json.loads((self.workspace.results / "failures.json").read_text())["cuda:90"])


def _children(pid: int) -> list[int]:
    try:
        return [int(w) for w in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
