"""Options of all tests. Standard library and pytest only: kernel tests have an environment of their own."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden anew, to be read in git diff"
    )
