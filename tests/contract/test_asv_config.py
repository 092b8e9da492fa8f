"""asv.conf.json, pyproject.toml, policy.toml and the measuring half agree on what they both name."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import asv.config
import json5
import pytest

import benchmarks
from kernels.codegen import METRICS
from kernels.disassemble import PACKAGE, VERSION
from scripts.tracker.harness import derive_config, describe_suite
from scripts.tracker.model import Role, VariantFacts
from scripts.tracker.policy import read_policy
from scripts.tracker.results import CODEGEN_BENCHMARK

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pins() -> dict[str, list[str]]:
    return dict(json5.loads((ROOT / "asv.conf.json").read_text())["matrix"]["req"])


@pytest.fixture(scope="module")
def judging_pins() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return dict(line.split("==") for line in project["dependencies"])


def test_every_pin_is_one_exact_version(pins: dict[str, list[str]]) -> None:
    assert all(len(versions) == 1 and versions[0][0].isdigit() for versions in pins.values())


def test_the_disassembler_is_the_one_that_the_fingerprint_names(pins: dict[str, list[str]]) -> None:
    assert pins[PACKAGE] == [VERSION]


def test_both_sides_of_the_evidence_store_compress_alike(
    pins: dict[str, list[str]], judging_pins: dict[str, str]
) -> None:
    assert pins["zstandard"] == [judging_pins["zstandard"]]


def test_the_makefile_has_the_same_pins(pins: dict[str, list[str]]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for name in ("numpy", "zstandard", "setuptools", "cuda-core", "cuda-bindings", "nvidia-ml-py", PACKAGE):
        assert f"{name}=={pins[name][0]}" in makefile


def test_asv_reads_the_derived_config(tmp_path: Path) -> None:
    derived = derive_config(ROOT / "asv.conf.json", tmp_path / "releases.git", tmp_path / "results")
    path = tmp_path / "asv.conf.json"
    path.write_text(json.dumps(derived))
    config = asv.config.Config.load(str(path))
    assert config.repo == str(tmp_path / "releases.git")
    assert config.results_dir == str(tmp_path / "results")
    assert config.benchmark_dir == str(ROOT / "benchmarks")
    assert config.branches == ["main"]
    assert config.build_command[0].startswith(f"in-dir={ROOT} python -m scripts.build_triton ")


def test_asv_reads_the_real_config() -> None:
    config = asv.config.Config.load(str(ROOT / "asv.conf.json"))
    assert config.project_url == "https://github.com/triton-lang/triton"
    assert config.environment_type == "virtualenv"


def test_the_suite_has_a_benchmark_for_every_metric() -> None:
    suite = describe_suite(ROOT, "benchmarks.codegen", "cuda:90")
    assert sorted(suite.benchmarks) == sorted(
        CODEGEN_BENCHMARK + name for name in [*METRICS, "compile_duration_s"]
    )
    assert [eval(v) for v in suite.params[0]] == list(suite.variants)  # noqa: S307 - our own words
    assert suite.params[-1] == ["'cuda:90'"]


def test_the_target_that_is_asked_for_is_measured() -> None:
    assert describe_suite(ROOT, "benchmarks.codegen", "cuda:80").params[-1] == ["'cuda:80'"]


def test_variants_have_the_roles_of_the_design() -> None:
    variants: dict[str, VariantFacts] = describe_suite(ROOT, "benchmarks.codegen", "cuda:90").variants
    by_role: dict[Role, set[str]] = {role: set() for role in Role}
    for name, facts in variants.items():
        by_role[facts.role].add(name)
    assert by_role == {
        Role.CANDIDATE: {"atomic_add", "atomic_add_relaxed", "descriptor_add"},
        Role.REFERENCE: {"inline_asm", "inline_asm_v2", "store", "two_pass"},
        Role.CONTROL: {"none", "none_keep_dq"},
        Role.CANARY: set(),  # work of others, in a suite of its own
    }
    # A candidate or an honest reference is exact; what is wrong by design must say so.
    assert {name for name, facts in variants.items() if not facts.exact} == {"store", "none", "none_keep_dq"}


def test_every_rule_is_about_a_metric_that_is_measured() -> None:
    assert {rule.metric for rule in read_policy().codegen.rule} <= set(METRICS)


def test_an_installed_package_named_kernels_does_not_win(tmp_path: Path) -> None:
    """asv imports the suite with its own sys.path; ours must stand first in it."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text("raise ImportError('the wrong kernels')")
    program = (
        "import sys, importlib.util as u\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        f"spec = u.spec_from_file_location('benchmarks', {benchmarks.__file__!r}, "
        f"submodule_search_locations=[{str(ROOT / 'benchmarks')!r}])\n"
        "module = u.module_from_spec(spec)\n"
        "sys.modules['benchmarks'] = module\n"
        "spec.loader.exec_module(module)\n"
        "import benchmarks.codegen\n"
    )
    done: Any = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
