"""The fingerprint changes with what can change a result, and with nothing else."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels import fingerprint as module
from kernels.fingerprint import (
    KERNEL_SOURCES,
    METRIC_SOURCES,
    fingerprint,
    strip_comments,
    timing_fingerprint,
)
from kernels.fingerprint import (
    TIMING_SOURCES as SESSION_SOURCES,
)

SOURCES = (*KERNEL_SOURCES, *METRIC_SOURCES)
TIMING_SOURCES = (*KERNEL_SOURCES, *SESSION_SOURCES)

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
# Imported on the way to a record, but without influence on what it says: where it is kept, this hash.
NOT_COUNTED = {"__init__.py", "evidence.py", "fingerprint.py"}

SOURCE = '''"""About the module."""

LIMIT = 64  # elements
TEXT = "# no comment"


class Tile:
    """About the class."""

    def rows(self):
        """About
        the method."""
        return LIMIT
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("About the module.", "Something else"),
        ("About the class.", 'A "quoted" # thing'),
        ("About\n        the method.", "One line"),
        ("# elements", "# rows"),
        ("  # elements", ""),
        ("\n\n\nclass", "\n# why\n\nclass"),
    ],
)
def test_words_for_readers_do_not_count(old: str, new: str) -> None:
    assert old in SOURCE
    assert strip_comments(SOURCE.replace(old, new)) == strip_comments(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"), [("64", "65"), ("# no comment", "# another"), ("return LIMIT", "return -LIMIT")]
)
def test_code_counts(old: str, new: str) -> None:
    assert old in SOURCE
    assert strip_comments(SOURCE.replace(old, new)) != strip_comments(SOURCE)


def test_what_is_left_is_the_same_program() -> None:
    compared = 0
    for name in SOURCES:
        source = (KERNELS / name).read_text()
        tree = ast.parse(source)
        documented = [
            node
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)
        ]
        for node in documented:
            del node.body[0]
        if all(node.body for node in documented):  # without its docstring, an exception class has no body
            assert ast.dump(ast.parse(strip_comments(source))) == ast.dump(tree), name
            compared += 1
    assert compared > len(SOURCES) / 2


@pytest.mark.parametrize(
    ("sources", "current"),
    [(SOURCES, fingerprint), (TIMING_SOURCES, timing_fingerprint)],
    ids=["code", "time"],
)
def test_each_source_counts_and_its_comments_do_not(
    sources: tuple[str, ...], current: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def uncached(_: object) -> str:
        module._hash.cache_clear()
        return current()

    expected = current()
    (tmp_path / "kernels").mkdir()
    for name in sources:
        (tmp_path / "kernels" / name).write_text((KERNELS / name).read_text())
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    assert uncached(sources) == expected
    for name in sources:
        copy = tmp_path / "kernels" / name
        source = copy.read_text()
        copy.write_text("# a comment\n" + source)
        assert uncached(sources) == expected, name
        copy.write_text(source + "\nX = 1\n")
        assert uncached(sources) != expected, name
        copy.write_text(source)
    module._hash.cache_clear()


def imported_by(name: str) -> set[str]:
    """Files of kernels/ that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse((KERNELS / name).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "kernels":
            found |= {f"{alias.name}.py" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernels."):
            found.add(f"{node.module.split('.')[1]}.py")
    return found


def test_all_that_a_result_passes_through_is_listed() -> None:
    reached, pending = set(), {"record.py"}
    while pending:
        name = pending.pop()
        reached.add(name)
        pending |= imported_by(name) - reached
    assert {"compile.py", "codegen.py", "dq_path.py", "attention_backward.py"} <= reached
    assert reached - NOT_COUNTED == set(SOURCES)


@pytest.mark.parametrize("sources", [SOURCES, TIMING_SOURCES], ids=["code", "time"])
def test_sources_exist_once(sources: tuple[str, ...]) -> None:
    assert all((KERNELS / name).is_file() for name in sources)
    assert len(set(sources)) == len(sources)
