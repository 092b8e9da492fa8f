"""compare: what a side may be, what is said of two of them, with and without a GPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from builders import record_document, write_object, write_record
from gpu_rig import VARIANTS, GpuRig

from kernels.codegen import METRICS
from scripts import compare
from scripts.tracker.errors import run_command
from scripts.tracker.model import Commit
from scripts.tracker.sides import Side
from scripts.tracker.workspace import Workspace

WIDE: dict[str, float | None] = {**dict.fromkeys(METRICS, 1.0), "dq_vector_width": 4.0, "gpu_fences": 8.0}
SCALAR: dict[str, float | None] = {**WIDE, "dq_vector_width": 1.0, "gpu_fences": 32.0}
# What a compiler made of a variant: the name of its code, its metrics, or its status and message.
Made = tuple[str, dict[str, float | None]] | tuple[str, str, str]
SAME: Made = ("same", WIDE)
TEXTS = {
    "same": "red.global.add.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};",
    "slow": "red.global.add.f32 [%rd1], %f1;\nred.global.add.f32 [%rd2], %f2;",
}


class Rig:
    """``made``: {label of a side: {variant: what its compiler makes}}; all else is the same code."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: dict[str, dict[str, Made]] = {}

    def compile(
        self, side: Side, python: Path, workspace: Workspace, target: str, head_dims: list[int]
    ) -> None:
        for head_dim in head_dims:
            for variant in [*VARIANTS, "support"]:
                made = self.made.get(side.commit.label, {}).get(variant, SAME)
                self._record(workspace, side.commit, variant, head_dim, made)

    def _record(self, workspace: Workspace, commit: Commit, variant: str, head_dim: int, made: Made) -> None:
        store = workspace.evidence.root
        case = {"head_dim": head_dim, "causal": True, "dtype": "fp16"}
        if len(made) == 3:
            _, status, message = made
            document = record_document(commit, variant, status, message, case=case, kernels=[], metrics=None)
        else:
            name, metrics = made
            text = TEXTS[name].encode()
            digest = write_object(store, text)
            objects = dict.fromkeys(("ttir", "ttgir", "llir", "ptx", "sass", "cubin"), digest)
            document = record_document(commit, variant, objects=objects, case=case, metrics=metrics)
            document["kernels"][0]["identity"] = f"{variant} {head_dim} {name}"
        write_record(store, document)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Compilers that are made up; everything after them is real."""
    made = Rig(tmp_path)

    @contextmanager
    def environment(folder: Path, base: Path | None = None) -> Iterator[Path]:
        yield folder / "bin" / "python"

    for name in ("benchmarks", "kernels"):
        (tmp_path / name).symlink_to(compare.ROOT / name)
    monkeypatch.setattr(compare, "ROOT", tmp_path)
    monkeypatch.setattr(compare, "DRIVER", tmp_path / "no-driver")
    monkeypatch.setattr(compare, "throwaway_environment", environment)
    monkeypatch.setattr(Side, "install", lambda side, python: None)
    monkeypatch.setattr(Side, "compile", lambda side, *rest: made.compile(side, *rest))
    return made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def start(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["compare", "--base", "3.8.0", "--head", "3.9.0", *arguments])
        status = run_command(compare.main)
        said = capsys.readouterr()
        return status, said.out, said.err

    return start


def row_of(out: str, variant: str) -> str:
    [line] = [line for line in out.splitlines() if line.startswith(f"| `{variant}")]
    return line


def test_equal_code_is_no_change(rig: Rig, run: Callable[..., Any]) -> None:
    status, out, _ = run()
    assert status == 0
    assert "**No change that matters**" in out
    assert row_of(out, "atomic_add`") == "| `atomic_add` | same | same | same | same | identical | - |"
    assert "GPU time: not measured, this machine has no NVIDIA driver." in out


def test_what_became_worse_is_said_first_with_its_stage(rig: Rig, run: Callable[..., Any]) -> None:
    rig.made["3.9.0"] = {"atomic_add": ("slow", SCALAR)}
    status, out, err = run()
    assert status == 1
    assert out.index("- `atomic_add`: **likely regression**") < out.index("| variant |")
    assert "  - `dq_vector_width 4 -> 1`" in out
    assert "**dQ** | follows" in row_of(out, "atomic_add`")
    assert row_of(out, "store`").endswith("identical | - |")
    assert "-red.global.add.v4.f32" in out
    assert "compiling" in err  # progress is not what is pasted


def test_as_json_it_is_the_finding_file(rig: Rig, run: Callable[..., Any]) -> None:
    rig.made["3.9.0"] = {"atomic_add": ("slow", SCALAR)}
    status, out, _ = run("--format", "json")
    assert status == 1
    findings = json.loads(out)["findings"]
    assert {f["candidate"] for f in findings} == {"atomic_add"}
    assert (findings[0]["before"]["label"], findings[0]["after"]["label"]) == ("3.8.0", "3.9.0")


def test_skipped_and_failed_are_two_things_and_neither_is_unchanged(
    rig: Rig, run: Callable[..., Any]
) -> None:
    gone: Made = ("", "unsupported", "has no tl.make_tensor_descriptor")
    rig.made["3.8.0"] = {"descriptor_add": gone}
    refused: Made = ("", "failed", "hostile | `x` </details>\nmore")
    rig.made["3.9.0"] = {"descriptor_add": gone, "atomic_add": refused}
    status, out, _ = run()
    assert status == 1
    assert "`atomic_add`: **no valid data**" in out
    assert "failed at head: `` hostile \\| `x` </details> ``" in row_of(out, "atomic_add`")
    assert "skipped at base and head: `has no tl.make_tensor_descriptor`" in row_of(out, "descriptor_add`")


def test_where_nothing_compiles_on_both_sides_there_is_no_verdict(rig: Rig, run: Callable[..., Any]) -> None:
    rig.made["3.9.0"] = rig.made["3.8.0"] = dict.fromkeys(VARIANTS, ("", "failed", "boom"))
    status, out, err = run()
    assert (status, out) == (2, "")
    assert "nothing compiles on both sides" in err
    assert "boom" in err


def test_what_was_not_compared_is_counted_beside_the_text(rig: Rig, run: Callable[..., Any]) -> None:
    rig.made["3.9.0"] = rig.made["3.8.0"] = {"atomic_add": ("", "failed", "boom")}
    _, _, err = run()
    assert "pairs with a variant that neither commit has" in " ".join(err.split())


def test_a_head_dim_that_says_something_else_has_a_row(rig: Rig, run: Callable[..., Any]) -> None:
    rig.made["3.9.0"] = {"atomic_add": ("slow", SCALAR)}
    whole = rig._record

    def only_64(workspace: Workspace, commit: Commit, variant: str, head_dim: int, made: Made) -> None:
        whole(workspace, commit, variant, head_dim, made if head_dim == 64 else SAME)

    rig._record = only_64  # type: ignore[method-assign]
    _, out, _ = run()
    assert "| `atomic_add (head_dim 64)` |" in out
    assert "| `atomic_add (head_dim 128)` | same" in out
    assert "<summary>ptx: atomic_add (head_dim 64)</summary>" in out


def test_the_texts_stay_for_a_diff_of_ones_own(rig: Rig, run: Callable[..., Any]) -> None:
    rig.made["3.9.0"] = {"atomic_add": ("slow", SCALAR)}
    run()
    texts = rig.root / ".cache" / "compare" / "texts"
    assert (texts / "head" / "hd64-causal-fp16" / "atomic_add.ptx").read_text() == TEXTS["slow"]
    assert (texts / "base" / "hd64-causal-fp16" / "atomic_add.ptx").read_text() == TEXTS["same"]


def test_a_second_comparison_leaves_nothing_of_the_first(rig: Rig, run: Callable[..., Any]) -> None:
    run()
    run("--head-dim", "64")
    assert not list((rig.root / ".cache" / "compare").rglob("hd128*"))


def test_with_a_gpu_both_sides_are_timed_in_one_session(
    rig: Rig, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = GpuRigOf(rig.root)
    monkeypatch.setattr(compare, "DRIVER", rig.root)
    monkeypatch.setattr(compare, "GPU_PYTHON", gpu.python)
    rig.made["3.9.0"] = {"atomic_add": ("slow", WIDE)}
    status, out, _ = run()
    assert status == 1
    assert "`atomic_add`: **likely regression**" in out
    assert row_of(out, "atomic_add`").endswith("| +20.0% |")
    assert row_of(out, "store`").endswith("| +0.0% |")
    [plan] = gpu.sessions()
    assert [label for _, label in plan["commits"]] == ["3.8.0", "3.9.0"]
    assert "n_ctx 2048, 8192; `NVIDIA H200" in out


def test_a_session_that_fails_is_no_comparison(
    rig: Rig, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "DRIVER", rig.root)
    monkeypatch.setattr(compare, "GPU_PYTHON", GpuRigOf(rig.root).python)
    monkeypatch.setenv("GPU_TROUBLE", json.dumps({"3.9.0": "refused"}))
    status, out, err = run()
    assert (status, out) == (2, "")
    assert "the GPU session did not end well" in err


class GpuRigOf(GpuRig):
    """The stand-in for a GPU's Python, in a checkout that has its kernels already."""

    def __init__(self, root: Path) -> None:
        for name in ("benchmarks", "kernels"):
            (root / name).unlink()
        super().__init__(root)
