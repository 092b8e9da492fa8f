"""The halves do not import each other, and judging needs neither Triton nor torch."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_import_contracts_of_pyproject_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 kept, 0 broken" in done.stdout


def test_every_command_can_be_imported_without_triton_and_torch() -> None:
    names = sorted(path.stem for path in (ROOT / "scripts").glob("*.py") if path.stem != "__init__")
    assert {"track", "flag_regressions"} <= set(names)
    program = "\n".join(
        [
            "import importlib, sys",
            # A None in sys.modules makes an import fail, whether the package is installed or not.
            "sys.modules.update(dict.fromkeys(['triton', 'torch', 'kernels', 'benchmarks']))",
            *(f"importlib.import_module('scripts.{name}')" for name in names),
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_script_inside_asvs_environment_needs_the_standard_library_alone() -> None:
    done = subprocess.run(
        # -E and -S: no PYTHONPATH, no site-packages.
        [sys.executable, "-E", "-S", "-m", "scripts.build_triton", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--commit" in done.stdout
