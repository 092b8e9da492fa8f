"""On a Hopper GPU: a session over a store with good and bad kernels. Every bad one is told apart, and the
good ones are timed all the same. Skipped, with the reason, where there is no such GPU."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kernels.compile import Case
from kernels.evidence import EvidenceWriter, read_object, read_record
from kernels.record import SUPPORT, record_one

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.core", reason="cuda.core is not installed: no GPU tests here")

from kernels.launch import Gpu, LaunchError  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
COMMIT, CASE = "a" * 40, Case(64, True, "fp16")
GOOD = ("none", "none_keep_dq", "atomic_add")
SHAPE = {"head_dim": 64, "causal": True, "dtype": "fp16", "n_ctx": 2048, "batch": 4, "heads": 8}
FILE = "hd64-causal-fp16-n2048-b4-h8.json"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        found = Gpu()
    except LaunchError as error:
        pytest.skip(str(error))
    if found.compute_capability != 90:
        pytest.skip(f"this GPU is cuda:{found.compute_capability}, the kernels are compiled for cuda:90")
    root = tmp_path_factory.mktemp("store")
    writer = EvidenceWriter(root)
    for name in (*GOOD, SUPPORT):
        assert record_one(writer, COMMIT, "cuda:90", CASE, name)["status"] == "ok"
    return root


def assemble(ptx: str, folder: Path) -> bytes:
    import triton

    ptxas = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    (folder / "k.ptx").write_text(ptx)
    command = [ptxas, "-arch=sm_90a", folder / "k.ptx", "-o", folder / "k.cubin"]
    subprocess.run(command, check=True)
    return (folder / "k.cubin").read_bytes()


def doctored(store: Path, folder: Path, name: str, first_instruction: str | None, **launch: Any) -> None:
    """A record like `none`'s whose kernel begins with an instruction of ours, or has other metadata."""
    writer = EvidenceWriter(store)
    source = read_record(writer.record_path("cuda:90", COMMIT, CASE.slug, "none"))
    [entry] = source["kernels"]
    cubin = read_object(store, entry["objects"]["cubin"])
    if first_instruction is not None:
        ptx = read_object(store, entry["objects"]["ptx"]).decode()
        head, body = re.split(r"(?<=\n)\{", ptx, maxsplit=1)
        last_declaration = max(m.end() for m in re.finditer(r"^\s*\.reg[^\n]*\n", body, re.M))
        code = body[:last_declaration] + first_instruction + "\n" + body[last_declaration:]
        cubin = assemble(head + "{" + code, folder)
    entry["objects"]["cubin"] = writer.put_object(cubin)
    entry["identity"] = hashlib.sha256(name.encode()).hexdigest()
    entry["launch"] = {**entry["launch"], **launch}
    writer.put_record(
        writer.record_path("cuda:90", COMMIT, CASE.slug, name),
        {**source, "variant": name, "kernels": [entry]},
    )


def plan_file(store: Path, folder: Path, variants: list[str], **changes: Any) -> Path:
    plan = {
        "store": str(store),
        "out": str(folder / "out"),
        "target": "cuda:90",
        "commits": [[COMMIT, "here"]],
        "variants": variants,
        "cases": [SHAPE],
        "seed": 1,
        "min_blocks": 5,
        "max_blocks": 5,
        "backward_blocks": 2,
        "canaries": ["device_copy"],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps({**plan, **changes}))
    return folder / "plan.json"


def session(plan: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.session", str(plan)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def document(plan: Path) -> dict[str, Any]:
    return dict(json.loads((plan.parent / "out" / FILE).read_text()))


def test_bad_kernels_are_told_apart_and_the_good_ones_are_timed(store: Path, tmp_path: Path) -> None:
    bad = ["store", "inline_asm", "two_pass", "inline_asm_v2", "descriptor_add", "atomic_add_relaxed"]
    doctored(store, tmp_path, "store", "trap;")
    doctored(store, tmp_path, "inline_asm", "$hangs: bra.uni $hangs;")
    doctored(store, tmp_path, "two_pass", "ret;")
    doctored(store, tmp_path, "atomic_add_relaxed", None, target="cuda:100")
    doctored(store, tmp_path, "inline_asm_v2", "mov.u32 %r1, 1; membar.gl;")
    path = EvidenceWriter(store).record_path("cuda:90", COMMIT, CASE.slug, "inline_asm_v2")
    digest = read_record(path)["kernels"][0]["objects"]["cubin"]
    (store / "objects" / digest[:2] / f"{digest}.zst").write_bytes(b"damaged")
    plan = plan_file(store, tmp_path, [*GOOD, *bad])
    done = session(plan)
    assert done.returncode == 0, done.stderr
    found = {subject["variant"]: subject for subject in document(plan)["subjects"]}
    said = {name: (found[name]["status"], found[name]["message"]) for name in bad}
    assert said["store"][0] == "failed"
    assert "faulted" in said["store"][1]
    assert said["inline_asm"] == ("failed", "did not end within 20 s")
    assert said["two_pass"][0] == "wrong"
    assert said["inline_asm_v2"][0] == "failed"
    assert "compile again" in said["inline_asm_v2"][1]
    assert said["descriptor_add"] == ("not_compiled", "no record in the evidence store")
    assert said["atomic_add_relaxed"][0] == "failed"
    assert "cuda:100" in said["atomic_add_relaxed"][1]
    for name in GOOD:
        assert found[name]["status"] == "ok"
        assert len(found[name]["kernel_s"]) == 5
        assert len(found[name]["backward_s"]) == 2
    for name in bad:
        assert found[name]["kernel_s"] == []


def test_a_commit_listed_twice_is_timed_twice(store: Path, tmp_path: Path) -> None:
    plan = plan_file(store, tmp_path, list(GOOD), commits=[[COMMIT, "a"], [COMMIT, "again"]])
    assert session(plan).returncode == 0
    subjects = document(plan)["subjects"]
    assert [len(s["kernel_s"]) for s in subjects] == [5] * 6
    assert subjects[0]["kernel_s"] != subjects[3]["kernel_s"]


def test_an_interrupted_session_keeps_its_blocks_and_goes_on(store: Path, tmp_path: Path) -> None:
    plan = plan_file(
        store,
        tmp_path,
        list(GOOD),
        cases=[{**SHAPE, "n_ctx": 16384}],
        min_blocks=300,
        max_blocks=300,
        backward_blocks=0,
    )
    path = tmp_path / "out" / FILE.replace("n2048", "n16384")
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.session", str(plan)], cwd=ROOT)
    time.sleep(8)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 130
    half = json.loads(path.read_text())
    assert not half["complete"]
    assert 0 < len(half["blocks"]) < 300
    assert session(plan).returncode == 0
    whole = json.loads(path.read_text())
    assert whole["complete"]
    assert len(whole["blocks"]) == 300
    kept = len(half["blocks"])
    assert [b["process"] for b in whole["blocks"]] == [1] * kept + [2] * (300 - kept)
    assert whole["subjects"][0]["kernel_s"][:kept] == half["subjects"][0]["kernel_s"]


def test_kernels_that_were_timed_before_cost_nothing(store: Path, tmp_path: Path) -> None:
    first = plan_file(store, tmp_path / "first", list(GOOD))
    assert session(first).returncode == 0
    # The archive is the folder of the sessions' folders.
    (tmp_path / "archive").mkdir()
    (tmp_path / "first" / "out").rename(tmp_path / "archive" / "first")
    plan = plan_file(store, tmp_path / "second", list(GOOD), archive=str(tmp_path / "archive"))
    done = session(plan)
    assert "0 cases to time" in done.stderr
    assert document(plan)["reused_from"] == "first"
    fresh = plan_file(store, tmp_path / "third", list(GOOD), archive=str(tmp_path / "archive"), fresh=True)
    assert "1 cases to time" in session(fresh).stderr


def test_too_large_a_shape_is_an_error_of_its_own(store: Path, tmp_path: Path) -> None:
    huge = {**SHAPE, "n_ctx": 2**21, "batch": 64}
    plan = plan_file(store, tmp_path, list(GOOD), cases=[huge, SHAPE])
    done = session(plan)
    assert done.returncode == 1
    assert "cannot allocate" in done.stderr
    assert document(plan)["complete"]


def test_an_unknown_gpu_is_refused(store: Path, tmp_path: Path) -> None:
    done = session(plan_file(store, tmp_path, list(GOOD), gpus=["GPU-0"]))
    assert done.returncode == 1
    assert "no GPU GPU-0 here" in done.stderr


def test_a_budget_ends_a_session_in_time(store: Path, tmp_path: Path) -> None:
    plan = plan_file(
        store,
        tmp_path,
        list(GOOD),
        cases=[{**SHAPE, "n_ctx": 32768}],
        min_blocks=900,
        max_blocks=900,
        budget_s=6,
    )
    started_s = time.monotonic()
    done = session(plan)
    assert time.monotonic() - started_s < 20
    assert done.returncode == 1
    assert "stopped by the budget" in done.stderr
