"""Hashes of all that can change a result: asv's `version` of each suite, and a record's `fingerprint`.

asv's own version hashes the benchmark function only; an edit of a kernel would join two different
kernels into one series. Comments and docstrings do not count, so they may be edited freely.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
# What makes a kernel; what makes metrics of it; what makes a time of it (not what loads,
# checks, stops and files).
KERNEL_SOURCES = (
    "variants.py",
    "launch_configs.py",
    "dq_accumulation.py",
    "attention_backward.py",
    "compat.py",
    "compile.py",
)
METRIC_SOURCES = ("disassemble.py", "codegen.py", "dq_path.py", "record.py")
TIMING_SOURCES = ("launch.py", "workload.py", "canary.py", "sampling.py")


def strip_comments(source: str) -> str:
    """Python source without comments, docstrings and blank lines; works on text, so that the result does
    not depend on the Python that runs it."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        if documented and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            for row in range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1):
                lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def fingerprint() -> str:
    """Of code generation: "KERNELS.METRICS", 12 and 8 hex digits, equal on every machine and Python for the
    same sources. The judging half joins code and time only where KERNELS is the same."""
    return f"{_hash(KERNEL_SOURCES)[:12]}.{_hash(METRIC_SOURCES)[:8]}"


def timing_fingerprint() -> str:
    """Of GPU time: "KERNELS.SESSION", likewise."""
    return f"{_hash(KERNEL_SOURCES)[:12]}.{_hash(TIMING_SOURCES)[:8]}"


def launch_fingerprint() -> str:
    """Of the host time of a launch."""
    return _hash(("launch_probe.py",))[:12]


@cache
def _hash(sources: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name in sources:
        digest.update(f"{name}\n{strip_comments((_ROOT / 'kernels' / name).read_text())}\n".encode())
    return digest.hexdigest()


if __name__ == "__main__":
    print(fingerprint())
