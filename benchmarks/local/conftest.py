"""What pytest says here: why something was not timed, and pytest-benchmark's warnings as words."""

from __future__ import annotations

import warnings

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    try:
        from pytest_benchmark.logger import PytestBenchmarkWarning
    except ImportError as error:
        raise pytest.UsageError(
            f"{error}: python -m pip install -r benchmarks/local/requirements.txt"
        ) from error
    # "Nothing to save", "nothing to compare with" are no faults: our own tests' strictness is not for users.
    # Both: pytest-benchmark warns while pytest starts, where the line of the configuration is read already.
    warnings.simplefilter("default", PytestBenchmarkWarning)
    config.addinivalue_line("filterwarnings", "default::pytest_benchmark.logger.PytestBenchmarkWarning")
    if "s" not in config.option.reportchars:
        config.option.reportchars += "s"
