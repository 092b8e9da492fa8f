"""What the README files say exists, exists: links, commands, and a test behind each "yes" of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.tracker.command_line import list_commands

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(
    [ROOT / "README.md", ROOT / ".github" / "RUNNING.md"]
    + [page for folder in ("kernels", "benchmarks", "scripts") for page in (ROOT / folder).glob("*.md")]
)
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_COMMAND = re.compile(r"python -m scripts\.(\w+)")


def comparison() -> list[list[str]]:
    section = (ROOT / "README.md").read_text().split("## Beside other trackers")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    assert len(rows) > 10
    return rows[2:]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in _HEADING.findall(page.read_text())}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_commands_of_a_page_exist(page: Path) -> None:
    text = page.read_text()
    links = [link for link in _LINK.findall(text) if not link[0].startswith(("http://", "https://"))]
    assert [link for link, _ in links if not (page.parent / link).exists()] == []
    for link, anchor in links:
        if anchor:
            assert anchor in anchors(page.parent / link if link else page), f"{link}#{anchor}"
    assert set(_COMMAND.findall(text)) <= dict(list_commands()).keys()


def test_each_yes_of_ours_in_the_comparison_names_a_test_and_no_other_does() -> None:
    for feature, ours, *_, test in comparison():
        assert (ROOT / "tests" / test.strip("`")).is_file() == (ours == "yes"), feature
        assert ours in ("yes", "no"), feature
        assert ours == "yes" or test == "-", feature


def test_each_row_of_the_comparison_has_an_entry_for_each_tracker() -> None:
    assert {len(row) for row in comparison()} == {11}
