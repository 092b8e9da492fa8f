"""SASS from a cubin, by one pinned nvdisasm for every Triton release.

Each Triton wheel brings the disassembler of its own CUDA; they print the same code differently, so a
difference between two releases could be the disassembler's. The pinned package reads all of them.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

PACKAGE = "nvidia-cuda-nvdisasm"
VERSION = "13.5.37"  # the pin of asv.conf.json (a test compares); part of the fingerprint
_SECTION = re.compile(r"^//-{5,}\s+(\S+)\s+-{5,}$", re.MULTILINE)
# Code, and data that the code reads. Debug information and notes are left out.
_KEPT_SECTIONS = (".text.", ".nv.constant", ".nv.global", ".nv.shared.")
_REGISTER_COUNT = re.compile(r"EIATTR_REGCOUNT\n(?:.*\n)*?.*index@\(\S+\)\n.*?\.word\s+(0x[0-9a-f]+)")


@cache
def _nvdisasm() -> Path:
    """The executable of the pinned package. Raises RuntimeError with the remedy."""
    try:
        installed = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        installed = None
    if installed is not None and installed.version == VERSION:
        for file in installed.files or []:
            if file.name == "nvdisasm":
                return Path(str(file.locate()))
    raise RuntimeError(
        f"this environment has {PACKAGE} {installed.version if installed else 'not at all'}, "
        f"not {VERSION}: pip install {PACKAGE}=={VERSION}"
    )


def disassemble(cubin: bytes) -> tuple[str, int]:
    """(SASS text of the code and data sections, registers a thread).

    Raises ValueError if the cubin cannot be read, RuntimeError if there is no disassembler.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(  # noqa: S603 - the pinned disassembler and a file of ours
            [_nvdisasm(), file.name], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise ValueError(f"nvdisasm cannot read the cubin: {done.stderr.strip() or done.stdout.strip()}")
    registers = _REGISTER_COUNT.search(done.stdout)
    if registers is None:
        raise ValueError("nvdisasm's output names no register count (EIATTR_REGCOUNT)")
    starts = list(_SECTION.finditer(done.stdout))
    ends = [match.start() for match in starts[1:]] + [len(done.stdout)]
    kept = [
        done.stdout[match.start() : end]
        for match, end in zip(starts, ends, strict=True)
        if match.group(1).startswith(_KEPT_SECTIONS)
    ]
    return "".join(kept), int(registers.group(1), 16)
