"""Real compilations by the Triton of this environment, one process each."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kernels.codegen import count_ptx_parameters, kernel_identity
from kernels.compile import (
    STAGES,
    Case,
    CompiledKernel,
    CompileFailure,
    KernelSpec,
    compile_fresh,
    compile_in_order,
    variant_specs,
)
from kernels.disassemble import disassemble
from kernels.evidence import EvidenceWriter
from kernels.launch_configs import BACKWARD
from kernels.record import SUPPORT, record_all, record_one
from kernels.variants import Variant

ROOT = Path(__file__).resolve().parents[2]
CASE = Case(64, True, "fp16")
LOOPS = 2  # a causal kernel walks the masked blocks and the others apart
CONFIG = BACKWARD[CASE.head_dim]
ELEMENTS_A_THREAD = CONFIG.block_m * CASE.head_dim // (CONFIG.num_warps * 32)
SCALAR_RED = re.compile(r"\bred\.global\.add\.f32\b")
ANY_ATOMIC = re.compile(r"\b(?:atom|red|cp\.reduce)\b[.\w:]*")


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> EvidenceWriter:
    return EvidenceWriter(tmp_path_factory.mktemp("evidence"))


@pytest.fixture(scope="module")
def records(writer: EvidenceWriter) -> dict[str, dict[str, Any]]:
    """Every variant, and the kernels that they share, through the whole measuring half."""
    made = record_all(writer, "here", "cuda:90", [CASE], list(Variant))
    return {record["variant"]: record for record in made}


@pytest.fixture
def ptx(records: dict[str, dict[str, Any]], writer: EvidenceWriter) -> Any:
    def read(name: str, kernel: int = 0) -> str:
        if records[name]["status"] == "unsupported":
            pytest.skip(records[name]["message"])
        return stored(writer, records[name]["kernels"][kernel]["objects"]["ptx"]).decode()

    return read


def stored(writer: EvidenceWriter, digest: str) -> bytes:
    content = (writer.root / "objects" / digest[:2] / f"{digest}.zst").read_bytes()
    return zstandard.ZstdDecompressor().decompress(content)


def spec_of(variant: Variant, **constexprs: Any) -> KernelSpec:
    spec = variant_specs(variant, CASE)[0]
    return replace(spec, constexprs={**spec.constexprs, **constexprs})


def identity(compiled: CompiledKernel | CompileFailure) -> str:
    assert isinstance(compiled, CompiledKernel), compiled.message
    sass, registers = disassemble(compiled.cubin)
    return kernel_identity(sass, {**compiled.launch, "registers": registers})


def recorded_identity(writer: EvidenceWriter, record: dict[str, Any]) -> str:
    """The same of a record's first kernel, which was compiled in a process of its own."""
    kernel = record["kernels"][0]
    added = ("target", "registers", "parameters", "hidden_parameters", "rows_per_program")
    launch = {name: value for name, value in kernel["launch"].items() if name not in added}
    return identity(CompiledKernel({}, stored(writer, kernel["objects"]["cubin"]), launch))


@pytest.mark.parametrize("name", [*(v.value for v in Variant), SUPPORT])
def test_every_variant_compiles_or_says_what_is_missing(
    name: str, records: dict[str, dict[str, Any]], writer: EvidenceWriter
) -> None:
    record = records[name]
    if record["status"] == "unsupported":
        assert name == Variant.DESCRIPTOR_ADD
        assert "triton" in record["message"]
        return
    assert (record["status"], record["message"]) == ("ok", None)
    assert len(record["kernels"]) == {SUPPORT: 3, Variant.TWO_PASS: 2}.get(name, 1)
    for kernel in record["kernels"]:
        assert set(kernel["objects"]) == {*STAGES, "sass", "cubin"}
        assert all(stored(writer, digest) for digest in kernel["objects"].values())
        assert set(kernel["durations_s"]) == {*STAGES, "cubin", "frontend"}
        assert all(seconds > 0 for seconds in kernel["durations_s"].values())


def test_a_launcher_gets_every_parameter_that_the_kernel_has(
    records: dict[str, dict[str, Any]], writer: EvidenceWriter
) -> None:
    ptx_types = {"i32": ".u32", "fp32": ".f32"}
    kernels_made = [kernel for record in records.values() for kernel in record["kernels"]]
    for kernel in kernels_made:
        text = stored(writer, kernel["objects"]["ptx"]).decode()
        entry = re.search(r"\.entry[^(]*\((.*?)\)", text, re.DOTALL)
        found = re.findall(r"\.param (\.\w+)", entry.group(1))
        hidden = kernel["launch"]["hidden_parameters"]
        # Hidden ones come last: pointers to scratch memory, as many for every kernel of a release.
        visible = [ptx_types.get(kind, ".u64") for _, kind in kernel["signature"]]
        assert found == visible + [".u64"] * hidden
        assert count_ptx_parameters(text) == len(found) == kernel["launch"]["parameters"]
        if kernel["launch"]["global_scratch_bytes"]:
            assert hidden >= 1
    assert len({kernel["launch"]["hidden_parameters"] for kernel in kernels_made}) == 1


def test_default_atomics_are_acq_rel(records: dict[str, dict[str, Any]], ptx: Any) -> None:
    assert ".acq_rel" in ptx("atomic_add")
    metrics = records["atomic_add"]["metrics"]
    assert metrics["dq_acq_rel"] == metrics["dq_writes"] > 0


def test_relaxed_atomics_are_not(records: dict[str, dict[str, Any]], ptx: Any) -> None:
    assert ".acq_rel" not in ptx("atomic_add_relaxed")
    assert ".relaxed" in ptx("atomic_add_relaxed")
    metrics = records["atomic_add_relaxed"]["metrics"]
    assert metrics["dq_acq_rel"] == 0
    assert metrics["dq_writes"] == records["atomic_add"]["metrics"]["dq_writes"]


def test_inline_assembly_is_neither_dropped_nor_doubled(records: dict[str, dict[str, Any]], ptx: Any) -> None:
    assert len(SCALAR_RED.findall(ptx("inline_asm"))) == ELEMENTS_A_THREAD * LOOPS
    assert ptx("inline_asm_v2").count("red.global.add.v2.f32") == ELEMENTS_A_THREAD * LOOPS // 2
    assert not SCALAR_RED.findall(ptx("inline_asm_v2"))
    for name, width in (("inline_asm", 1), ("inline_asm_v2", 2)):
        metrics = records[name]["metrics"]
        assert metrics["dq_vector_width"] == width
        assert metrics["dq_writes"] == ELEMENTS_A_THREAD * LOOPS // width
        assert metrics["dq_layout_conversions"] == 0


def test_descriptor_add_is_a_bulk_reduction(records: dict[str, dict[str, Any]], ptx: Any) -> None:
    assert "cp.reduce.async.bulk.tensor" in ptx("descriptor_add")
    assert records["descriptor_add"]["metrics"]["dq_writes"] >= LOOPS


def test_without_atomics(records: dict[str, dict[str, Any]], ptx: Any) -> None:
    for name in ("store", "none", "none_keep_dq"):
        assert not ANY_ATOMIC.findall(ptx(name)), name
    assert records["store"]["metrics"]["dq_writes"] > 0
    assert records["store"]["metrics"]["sass_dq_writes"] > 0
    assert records["none"]["metrics"]["dq_writes"] == 0
    assert records["none_keep_dq"]["metrics"]["dq_writes"] == 0
    # The product is what the two controls differ in.
    products = {name: records[name]["metrics"]["matrix_instructions"] for name in ("none", "none_keep_dq")}
    assert products["none"] < products["none_keep_dq"]


def test_two_pass_writes_dq_in_its_second_kernel(records: dict[str, dict[str, Any]], ptx: Any) -> None:
    first, second = records["two_pass"]["kernels"]
    assert not ANY_ATOMIC.findall(ptx("two_pass", 1))
    assert (first["metrics"]["dq_writes"], first["role"]) == (0, "backward")
    assert (second["metrics"]["dq_writes"] > 0, second["role"]) == (True, "backward_dq")
    assert first["identity"] == records["none"]["kernels"][0]["identity"]


@pytest.mark.parametrize("target", ["cuda:80", "cuda:100"])
def test_other_targets(target: str, writer: EvidenceWriter) -> None:
    record = record_one(writer, "here", target, CASE, "atomic_add")
    assert record["status"] == "ok", record["message"]
    assert f".target sm_{target[5:]}" in stored(writer, record["kernels"][0]["objects"]["ptx"]).decode()
    assert record["metrics"]["matrix_instructions"] > 0


@pytest.mark.parametrize("name", ["descriptor_add", "inline_asm_v2"])
def test_instructions_that_ampere_lacks_are_unsupported(name: str, writer: EvidenceWriter) -> None:
    record = record_one(writer, "here", "cuda:80", CASE, name)
    assert record["status"] == "unsupported"
    assert "needs cuda:90" in record["message"]


@pytest.mark.parametrize("case", [Case(64, False, "bf16"), Case(128, False, "fp16")], ids=lambda c: c.slug)
def test_other_cases(case: Case) -> None:
    compiled = compile_fresh(variant_specs(Variant.INLINE_ASM, case)[0], "cuda:90")
    assert isinstance(compiled, CompiledKernel), compiled.message
    # Without a mask there is one loop.
    elements = BACKWARD[case.head_dim].block_m * case.head_dim // (BACKWARD[case.head_dim].num_warps * 32)
    assert len(SCALAR_RED.findall(compiled.texts["ptx"])) == elements


def test_order_does_not_change_what_is_compiled_first(
    records: dict[str, dict[str, Any]], writer: EvidenceWriter
) -> None:
    """Later kernels of a process may differ (they do with 3.3.1), so each one gets its own."""
    variants = [Variant.ATOMIC_ADD, Variant.STORE]
    fresh = [recorded_identity(writer, records[variant.value]) for variant in variants]
    assert fresh[0] != fresh[1]
    specs = [spec_of(variant) for variant in variants]
    with ThreadPoolExecutor(max_workers=2) as pool:
        forth = pool.submit(compile_in_order, specs, "cuda:90")
        back = pool.submit(compile_in_order, specs[::-1], "cuda:90")
        again = pool.submit(compile_fresh, specs[0], "cuda:90")
    assert [identity(forth.result()[0]), identity(back.result()[0])] == fresh
    assert identity(again.result()) == fresh[0]
    assert all(isinstance(kernel, CompiledKernel) for kernel in forth.result() + back.result())


def test_identity_ignores_where_the_sources_are_and_their_comments(
    records: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "kernels").mkdir()
    for source in (ROOT / "kernels").glob("*.py"):
        (tmp_path / "kernels" / source.name).write_text("# moved\n# down\n" + source.read_text())
    program = (
        "import json, pathlib\n"
        "from kernels.compile import Case\n"
        "from kernels.evidence import EvidenceWriter\n"
        "from kernels.record import record_one\n"
        "writer = EvidenceWriter(pathlib.Path('store'))\n"
        "case = Case(64, True, 'fp16')\n"
        "print(json.dumps(record_one(writer, 'there', 'cuda:90', case, 'atomic_add')))\n"
    )
    command = [sys.executable, "-c", program]
    record = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout)
    there, here = record["kernels"][0], records["atomic_add"]["kernels"][0]
    text = stored(EvidenceWriter(tmp_path / "store"), there["objects"]["ttir"]).decode()
    assert f'"{tmp_path}/kernels/attention_backward.py":' in text
    assert there["objects"]["ttir"] != here["objects"]["ttir"]
    assert there["identity"] == here["identity"]
    assert record["fingerprint"] == records["atomic_add"]["fingerprint"]


def test_identity_sees_another_launch_or_tile(
    records: dict[str, dict[str, Any]], writer: EvidenceWriter
) -> None:
    spec = spec_of(Variant.STORE)
    changed = [
        replace(spec, num_warps=2 * spec.num_warps),
        spec_of(Variant.STORE, BLOCK_M1=CONFIG.block_m // 2),
    ]
    with ThreadPoolExecutor(max_workers=2) as pool:
        compiled = list(pool.map(lambda s: identity(compile_fresh(s, "cuda:90")), changed))
    assert len({recorded_identity(writer, records["store"]), *compiled}) == 3


def test_the_shell_does_not_change_the_result(
    records: dict[str, dict[str, Any]], writer: EvidenceWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/nowhere")
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "1")
    compiled = compile_fresh(spec_of(Variant.NONE), "cuda:90")
    assert identity(compiled) == recorded_identity(writer, records["none"])
