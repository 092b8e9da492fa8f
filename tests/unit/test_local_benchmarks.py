"""Local benchmarks: pytest-benchmark gets the session's samples, and its files can be judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts import flag_regressions
from scripts.tracker.errors import run_command

ROOT = Path(__file__).resolve().parents[2]
NOTHING_TO_TIME = "no Triton in this Python"
# A GPU that is made up: 1 ms a kernel, atomic_add FACTOR times that.
PLUGIN = """
import os, sys, types
sys.path[:0] = [TESTS, ROOT]
from benchmarks import _timed
from builders import block_document, session_document, subject_document
from scripts.tracker.model import Commit

sys.modules["triton"] = types.ModuleType("triton")
sys.modules["triton"].__version__ = os.environ["VERSION"]
_timed.no_gpu_reason = lambda: None

def take(variants, lengths, folder):
    documents = []
    for head_dim, n_ctx in lengths:
        case = {"head_dim": head_dim, "causal": True, "dtype": "fp16", "n_ctx": n_ctx, "batch": 4, "heads": 8}
        subjects = []
        for variant in variants:
            factor = float(os.environ["FACTOR"]) if variant == "atomic_add" else 1.0
            samples_s = [factor * 1e-3 * (1 + i % 3 * 1e-4) for i in range(8)]
            changes = {}
            if variant == "descriptor_add":
                changes = {"status": "unsupported", "message": "no such operation"}
            if variant == "store":
                changes = {"status": "wrong", "message": "dK is wrong"}
            subjects.append(subject_document(Commit("local", "local"), variant, samples_s, **changes))
        canary = {"message": None, "kernel_s": [2e-3 * (1 + i % 3 * 1e-4) for i in range(8)]}
        blocks = [block_document(valid=i > 0) for i in range(8)]
        documents.append(session_document(subjects, blocks, case=case, started_at=os.environ["STARTED"],
                                          canaries={"device_copy": canary}))
    return documents

def pytest_collection_modifyitems(items):
    items[0].module.take = take
"""


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    (tmp_path / "made_up_gpu.py").write_text(
        PLUGIN.replace("TESTS", repr(str(ROOT / "tests" / "unit"))).replace("ROOT", repr(str(ROOT)), 1)
    )

    def start(
        out: str, version: str, factor: float, day: int, *options: str
    ) -> subprocess.CompletedProcess[str]:
        started = f"2026-12-0{day}T13:00:00+00:00"
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "VERSION": version, "FACTOR": str(factor),
                       "STARTED": started, "COLUMNS": "200"}  # fmt: skip
        command = [sys.executable, "-m", "pytest", "benchmarks/local", "-p", "made_up_gpu", "-k",
                   "2048", "-rs", "-p", "no:cacheprovider", "--benchmark-json", str(tmp_path / out),
                   "--benchmark-storage", str(tmp_path / "storage"), *options]  # fmt: skip
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    return start


@pytest.fixture
def flag(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def start(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["flag_regressions", *map(str, arguments)])
        status = run_command(flag_regressions.main)
        said = capsys.readouterr()
        return status, said.out, said.err

    return start


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--benchmark-json", "OUT/new.json", "--benchmark-autosave"],
        ["--benchmark-compare", "--benchmark-compare-fail", "median:5%"],
    ],
)
def test_where_nothing_can_be_timed_all_is_skipped_with_a_reason(options: list[str], tmp_path: Path) -> None:
    options = [word.replace("OUT", str(tmp_path)) for word in options]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "benchmarks/local", "-p", "no:cacheprovider",
         "--benchmark-storage", str(tmp_path), *options],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert NOTHING_TO_TIME in done.stdout
    assert "passed" not in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_without_pytest_benchmark_the_remedy_is_said(tmp_path: Path) -> None:
    (tmp_path / "pytest_benchmark.py").touch()  # in place of the package
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "benchmarks/local", "-p", "no:cacheprovider", "-p", "no:benchmark"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert "pip install -r benchmarks/local/requirements.txt" in done.stderr
    assert "Traceback" not in done.stderr


def test_samples_are_those_of_the_session(bench: Callable[..., Any], tmp_path: Path) -> None:
    done = bench("one.json", "3.9.0", 1.5, 1)
    assert done.returncode == 1, done.stdout  # store is wrong, which is no number
    assert "RuntimeError: store: wrong: dK is wrong" in done.stdout
    assert "no such operation" in done.stdout
    found = {b["name"]: b for b in json.loads((tmp_path / "one.json").read_text())["benchmarks"]}
    row = found["test_kernel[atomic_add-64-2048]"]
    # The first block is not valid: the GPU throttled.
    assert row["stats"]["data"] == [1.5e-3 * (1 + i % 3 * 1e-4) for i in range(1, 8)]
    assert row["group"] == "head_dim 64, n_ctx 2048, causal, fp16"
    assert "test_canary[device_copy-64-2048]" in found
    assert not any("store" in name or "descriptor_add" in name for name in found)
    assert {b["group"] for b in found.values()} == {row["group"], row["group"].replace("64", "128", 1)}


def test_pytest_benchmark_compares(bench: Callable[..., Any]) -> None:
    bench("one.json", "3.9.0", 1.0, 1, "--benchmark-save", "before")
    done = bench("two.json", "3.9.0", 1.5, 2, "--benchmark-compare", "--benchmark-compare-fail", "median:5%")
    assert "Performance has regressed" in done.stdout + done.stderr


def test_files_are_judged(bench: Callable[..., Any], flag: Callable[..., Any], tmp_path: Path) -> None:
    bench("one.json", "3.8.0", 1.0, 1)
    bench("two.json", "3.9.0", 1.5, 2)
    status, out, err = flag(
        "--format", "json", "--benchmark-json", tmp_path / "one.json", tmp_path / "two.json"
    )
    assert status == 1, err
    findings = [f for f in json.loads(out)["findings"] if f["candidate"] == "atomic_add"]
    assert {(f["before"]["label"], f["after"]["label"]) for f in findings} == {("3.8.0", "3.9.0")}
    assert {round(f["change"], 3) for f in findings} == {0.5}
    # Two single sessions: each may have its own luck.
    assert {f["verdict"] for f in findings} == {"pending"}


def test_one_build_timed_twice_is_no_finding(
    bench: Callable[..., Any], flag: Callable[..., Any], tmp_path: Path
) -> None:
    bench("one.json", "3.9.0", 1.0, 1)
    bench("two.json", "3.9.0", 1.0, 2)
    status, out, err = flag("--benchmark-json", tmp_path / "one.json", tmp_path / "two.json")
    assert (status, out.strip()) == (0, "No findings.")
    assert "GPU time: NVIDIA H200" in err


def altered(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.clear(), "missing required field `benchmarks`"),
        (lambda d: d["benchmarks"].clear(), "no benchmark of benchmarks/local"),
        (lambda d: d["benchmarks"][0]["stats"]["data"].clear(), "has no samples"),
        (lambda d: d["benchmarks"][0]["stats"].update(data=[-1.0]), "one that is no time"),
        (lambda d: d["benchmarks"][0]["extra_info"].update(atomwatch=2), "schema 2, this program reads 1"),
        (lambda d: d["benchmarks"][0]["extra_info"].update(what="a\x1b[2J"), "no name of a variant"),
        (lambda d: d["benchmarks"][0]["extra_info"].pop("device"), "missing required field `device`"),
        (lambda d: d["benchmarks"].append(d["benchmarks"][0]), "stands in it twice"),
    ],
)
def test_a_damaged_file_is_one_error(
    change: Callable[[dict[str, Any]], object],
    words: str,
    bench: Callable[..., Any],
    flag: Callable[..., Any],
    tmp_path: Path,
) -> None:
    bench("one.json", "3.9.0", 1.0, 1)
    altered(tmp_path / "one.json", change)
    status, out, err = flag("--benchmark-json", tmp_path / "one.json")
    assert (status, out) == (2, "")
    [line] = err.strip().splitlines()
    assert words in line
    assert str(tmp_path / "one.json") in line
    assert "\x1b" not in line


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_json_is_one_error(content: bytes, flag: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    status, _, err = flag("--benchmark-json", tmp_path / "bad.json")
    assert status == 2
    assert "bad.json: not a file of pytest --benchmark-json" in err


def test_the_pins_are_those_of_every_measurement() -> None:
    makefile = (ROOT / "Makefile").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    lines = (ROOT / "benchmarks" / "local" / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert len(pins) == 8
    assert [pin for pin in pins if pin not in makefile and f'"{pin}"' not in project] == []
