"""What becomes of a compilation that fails: the compiler's fault is a result, the machine's is not."""

import errno
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kernels.compile
from kernels.compile import (
    Case,
    CompiledKernel,
    CompileFailure,
    InfrastructureError,
    KernelSpec,
    compile_fresh,
    compile_in_order,
    compute_capability,
    variant_specs,
)
from kernels.evidence import EvidenceWriter
from kernels.record import record_one
from kernels.variants import Variant

CASE = Case(64, True, "fp16")


def spec_of(variant: Variant, **constexprs: Any) -> KernelSpec:
    spec = variant_specs(variant, CASE)[0]
    return replace(spec, constexprs={**spec.constexprs, **constexprs})


def test_a_refusal_carries_the_compilers_reason() -> None:
    bad_tile, bad_switch = spec_of(Variant.STORE, BLOCK_M1=256), spec_of(Variant.STORE, DQ_REDUCTION="guess")
    good = spec_of(Variant.NONE)
    results = compile_in_order([bad_tile, bad_switch, good], "cuda:90")
    assert isinstance(results[0], CompileFailure)
    assert "static_assert(BLOCK_N1 % BLOCK_M1 == 0)" in results[0].message
    # The reason lies two calls deeper than the kernel.
    assert isinstance(results[1], CompileFailure)
    assert 'DQ_REDUCTION == "store"' in results[1].message
    assert isinstance(results[2], CompiledKernel)


@pytest.fixture
def fake_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a shell script in the place of the compile process. In it, $5 is the folder of results."""

    def install(script: str) -> None:
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\nulimit -c 0\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    return install


@pytest.mark.parametrize("name", ["SEGV", "ABRT"])
def test_a_crash_is_the_compilers_failure(name: str, fake_python: Any) -> None:
    fake_python(f"echo 'Assertion failed: layouts' >&2\nkill -{name} $$")
    result = compile_fresh(spec_of(Variant.NONE), "cuda:90")
    assert isinstance(result, CompileFailure)
    assert f"died of SIG{name}" in result.message
    assert "Assertion failed: layouts" in result.message


def test_a_crash_does_not_take_finished_kernels_with_it(fake_python: Any) -> None:
    fake_python(
        'mkdir "$5/0" "$5/1"; cd "$5/0"; touch ttir ttgir llir ptx cubin\n'
        """echo '{"launch": {}, "durations_s": {}}' > launch.json; kill -SEGV $$"""
    )
    results = compile_in_order([spec_of(Variant.NONE)] * 3, "cuda:90")
    assert [type(r) for r in results] == [CompiledKernel, CompileFailure, CompileFailure]


def test_a_hang_is_the_compilers_failure(fake_python: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.compile, "COMPILE_TIMEOUT_S", 0.3)
    fake_python("exec sleep 30")
    result = compile_fresh(spec_of(Variant.NONE), "cuda:90")
    assert isinstance(result, CompileFailure)
    assert "did not finish" in result.message


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -KILL $$", "killed by SIGKILL"),  # what the kernel does to a process when memory runs out
        ("kill -TERM $$", "killed by SIGTERM"),
        ("echo 'no space' >&2; exit 70", "no space"),
        (f'exec {sys.executable} -S -E "$@"', "No module named 'triton'"),
    ],
    ids=["killed", "terminated", "status", "no-triton"],
)
def test_the_machines_failures_are_not_recorded(
    script: str, message: str, fake_python: Any, tmp_path: Path
) -> None:
    fake_python(script)
    with pytest.raises(InfrastructureError, match=message):
        record_one(EvidenceWriter(tmp_path / "store"), "here", "cuda:90", CASE, "none")
    assert not (tmp_path / "store").exists()


def test_a_full_disk_under_a_compiler_error_is_the_machines_failure() -> None:
    def caused_by(cause: BaseException) -> BaseException:
        error = RuntimeError("compilation failed")
        error.__cause__ = cause
        return error

    assert kernels.compile._is_infrastructure(caused_by(OSError(errno.ENOSPC, "no space left")))
    assert kernels.compile._is_infrastructure(caused_by(MemoryError()))
    assert kernels.compile._is_infrastructure(caused_by(OSError(errno.ENOENT, "no such file")))
    # ptxas is a process of its own: the system may kill it, or it may be gone.
    for machine in ("`ptxas` failed with error code -9", "Cannot find ptxas"):
        assert kernels.compile._is_infrastructure(caused_by(RuntimeError(machine)))
    for compiler in ("`ptxas` failed with error code 255", "`ptxas` failed with error code -11"):
        assert not kernels.compile._is_infrastructure(caused_by(RuntimeError(compiler)))


def test_unknown_words_are_refused() -> None:
    for values in ((96, True, "fp16"), (64, True, "fp32")):
        with pytest.raises(ValueError, match="choose one of"):
            Case(*values)
    with pytest.raises(ValueError, match="choose one of"):
        compute_capability("cuda:75")
    assert compute_capability("cuda:100") == 100


def test_a_refused_variant_is_a_record_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernels.record.compile_fresh", lambda *_: CompileFailure("no such layout"))
    writer = EvidenceWriter(tmp_path)
    record = record_one(writer, "here", "cuda:90", CASE, "two_pass")
    assert (record["status"], record["message"]) == ("failed", "no such layout")
    assert (record["kernels"], record["metrics"]) == ([], None)
    path = writer.record_path("cuda:90", "here", CASE.slug, "two_pass")
    assert writer.load_current(path, record["fingerprint"]) == record
