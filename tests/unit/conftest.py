"""Fixtures: golden files (what people read, kept as they read it), and a GitHub of our own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from openapi_core import OpenAPI

from tests.github_double.openapi import CannotFetchError, load_description, problems
from tests.github_double.server import GitHubDouble, serve

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


@pytest.fixture(scope="session")
def published() -> OpenAPI | str:
    """GitHub's own description of its API, or the reason why it could not be had."""
    try:
        return load_description()
    except CannotFetchError as error:
        return str(error)


@pytest.fixture
def description(published: OpenAPI | str) -> OpenAPI:
    """The description; without it a test is skipped, with the reason."""
    if isinstance(published, str):
        pytest.skip(published)
    return published


@pytest.fixture
def double(published: OpenAPI | str) -> Iterator[GitHubDouble]:
    """A GitHub of our own. At the end every exchange must be as GitHub documents it; where the description
    cannot be had, the test of `problems` is skipped and says so."""
    found = GitHubDouble()
    with serve(found) as found.url:
        yield found
    if not isinstance(published, str):
        assert problems(published, found.exchanges) == []
