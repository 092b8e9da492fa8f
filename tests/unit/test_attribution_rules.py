"""attribution.toml: every file of Triton has an area, and every stage somebody who can change it."""

from pathlib import Path

import pytest

from scripts.tracker.attribution_rules import RULES_FILE, read_rules
from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Stage
from scripts.tracker.policy import read_policy

RULES = read_rules()


@pytest.mark.parametrize(
    ("path", "area", "stage"),
    [
        ("cmake/llvm-hash.txt", "LLVM pin", Stage.PTX),
        ("cmake/nvidia-toolchain-version.json", "NVIDIA toolchain pin", Stage.SASS),
        ("third_party/nvidia/lib/TritonNVIDIAGPUToLLVM/LoadStoreOpToLLVM.cpp", "NVIDIA lowering", Stage.LLIR),
        ("lib/Conversion/TritonGPUToLLVM/ConvertLayoutOpToLLVM.cpp", "shared lowering", Stage.LLIR),
        ("lib/Dialect/TritonGPU/Transforms/Coalesce.cpp", "TritonGPU passes", Stage.TTGIR),
        ("include/triton/Conversion/TritonToTritonGPU/Passes.td", "Triton IR to TritonGPU IR", Stage.TTGIR),
        ("lib/Dialect/Triton/Transforms/Combine.cpp", "Triton IR and its passes", Stage.TTIR),
        ("python/triton/language/semantic.py", "front end", Stage.TTIR),
        ("python/triton/compiler/code_generator.py", "front end", Stage.TTIR),
    ],
)
def test_the_area_of_a_file_explains_its_stage_best(path: str, area: str, stage: Stage) -> None:
    found = RULES.area_of(path)
    assert found is not None
    assert found.name == area
    assert found.weight(stage, "cuda:90") == max(found.first_seen.values()) == 1.0


@pytest.mark.parametrize(
    "path",
    [
        "test/Conversion/tritongpu_to_llvm.mlir",
        "python/test/unit/language/test_core.py",
        "third_party/nvidia/unittest/Conversion/PTXAsmFormatTest.cpp",
        "third_party/amd/lib/TritonAMDGPUToLLVM/LoadStoreOpToLLVM.cpp",
        "third_party/amd/backend/compiler.py",
        "README.md",
        ".github/workflows/wheels.yml",
        "python/tutorials/06-fused-attention.py",
        "third_party/proton/csrc/Proton.cpp",
        "python/triton/runtime/interpreter.py",
        "third_party/nvidia/backend/driver.c",
    ],
)
def test_files_that_cannot_change_code_for_nvidia(path: str) -> None:
    found = RULES.area_of(path)
    assert found is not None
    assert all(found.weight(stage, "cuda:90") == 0 for stage in (*Stage, None))


def test_amd_files_count_for_amd_and_nvidia_files_do_not() -> None:
    amd = RULES.area_of("third_party/amd/lib/TritonAMDGPUToLLVM/LoadStoreOpToLLVM.cpp")
    nvidia = RULES.area_of("third_party/nvidia/lib/TritonNVIDIAGPUToLLVM/LoadStoreOpToLLVM.cpp")
    assert amd is not None
    assert nvidia is not None
    assert amd.weight(Stage.LLIR, "hip:gfx942") == 1
    assert nvidia.weight(Stage.LLIR, "hip:gfx942") == 0


def test_an_unknown_file_is_not_ruled_out() -> None:
    found = RULES.area_of("some/new/folder/Thing.cpp")
    assert found is not None
    assert 0 < found.weight(Stage.LLIR, "cuda:90") < 1


def test_each_stage_has_an_area_and_each_judged_metric_a_topic() -> None:
    for stage in Stage:
        assert max(area.weight(stage, "cuda:90") for area in RULES.area) == 1.0
    spoken_for = {metric for topic in RULES.topic for metric in topic.metrics}
    assert {rule.metric for rule in read_policy().codegen.rule} <= spoken_for


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("max_suspects = 10", "max_suspects = 0", "max_suspects"),
        ('"atomic"', '"ato(mic"', "attribution.toml"),
        ("undone = 0.1", "undone = nan", "undone"),
        ("undone = 0.1", "undon = 0.1", "undon"),
        ("ttgir = 0.1", "tgir = 0.1", "tgir"),
    ],
)
def test_a_wrong_rule_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = RULES_FILE.read_text()
    assert old in text
    path = tmp_path / RULES_FILE.name
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(TrackerError, match=words):
        read_rules(path)
