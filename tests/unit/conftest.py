"""Golden files: what people read, kept as they read it."""

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file of tests/golden, or write it there with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert text == path.read_text(), "read the difference; if it is meant: pytest --update-golden"

    return compare


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """asv's list of machines, in a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".asv-machine.json"
