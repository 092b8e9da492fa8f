"""The pinned disassembler, on a cubin that this environment's Triton makes."""

import re
from pathlib import Path

import pytest

from kernels import disassemble as module
from kernels.codegen import parse_sass
from kernels.compile import Case, CompiledKernel, compile_fresh, support_specs
from kernels.disassemble import PACKAGE, VERSION, disassemble

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cubin() -> bytes:
    compiled = compile_fresh(support_specs(Case(64, True, "fp16"))[1], "cuda:90")
    assert isinstance(compiled, CompiledKernel), compiled.message
    return compiled.cubin


def test_code_without_debug_sections(cubin: bytes) -> None:
    text, registers = disassemble(cubin)
    assert ".text._attn_bwd_preprocess" in text
    assert not re.search(r"^//-+ \.(debug|nv_debug|note|nv\.info)", text, re.MULTILINE)
    assert 8 <= registers <= 255
    bases = [instruction.base for instruction in parse_sass(text).instructions]
    assert "EXIT" in bases
    assert "STG" in bases
    # The register count is enough for every register that the code names, and not by much.
    highest = max(int(number) for number in re.findall(r"\bR(\d+)\b", text))
    assert highest < registers


def test_a_broken_cubin_is_refused(cubin: bytes) -> None:
    for broken in (b"", b"not an ELF file", cubin[: len(cubin) // 2]):
        with pytest.raises(ValueError, match="nvdisasm"):
            disassemble(broken)


def test_another_disassembler_is_refused(monkeypatch: pytest.MonkeyPatch, cubin: bytes) -> None:
    monkeypatch.setattr(module, "VERSION", "1.2.3")
    module._nvdisasm.cache_clear()
    with pytest.raises(RuntimeError, match=re.escape(f"pip install {PACKAGE}==1.2.3")):
        disassemble(cubin)
    module._nvdisasm.cache_clear()


def test_the_environments_of_asv_have_this_version() -> None:
    pins = re.findall(rf'"{PACKAGE}": \["([\d.]+)"\]', (ROOT / "asv.conf.json").read_text())
    assert pins == [VERSION]
