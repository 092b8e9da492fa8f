"""The site's folder is exchanged as a whole: a stop or an error leaves the earlier one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.pages.folder import replace_site
from scripts.tracker.errors import TrackerError


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / ".asv" / "report"
    replace_site(folder, [("index.html", "first"), ("cases/a.html", "a")])
    return folder


def left(report: Path) -> list[str]:
    return [path.name for path in report.parent.iterdir()]


def test_it_is_made_with_its_folders(report: Path) -> None:
    assert (report / "index.html").read_text() == "first"
    assert (report / "cases" / "a.html").read_text() == "a"
    assert left(report) == ["report"]
    assert report.stat().st_mode & 0o777 == 0o755


def test_the_next_one_takes_its_place_and_leaves_what_is_not_the_sites(report: Path) -> None:
    (report / "comments").mkdir()
    (report / "comments" / "x.md").write_text("kept")
    replace_site(report, [("index.html", "second")])
    assert (report / "index.html").read_text() == "second"
    assert not (report / "cases").exists()
    assert (report / "comments" / "x.md").read_text() == "kept"
    assert left(report) == ["report"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_stop_in_the_middle_leaves_the_earlier_one(report: Path, error: type[BaseException]) -> None:
    def files() -> Iterator[tuple[str, str]]:
        yield "index.html", "second"
        raise error

    with pytest.raises(error):
        replace_site(report, files())
    assert (report / "index.html").read_text() == "first"
    assert left(report) == ["report"]


def test_a_full_disk_is_one_error_with_the_remedy(report: Path) -> None:
    def files() -> Iterator[tuple[str, str]]:
        yield "index.html", "second"
        raise OSError(28, "No space left on device")

    with pytest.raises(TrackerError, match=r"No space left on device.*earlier report is as it was.*free"):
        replace_site(report, files())
    assert (report / "index.html").read_text() == "first"


def test_a_second_rename_that_fails_brings_the_earlier_one_back(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename
    (report / "comments").mkdir()

    def refuse(path: Path, target: Path) -> Path:
        if target == report and "earlier" not in path.name:
            raise OSError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(TrackerError, match="Permission denied"):
        replace_site(report, [("index.html", "second")])
    assert (report / "index.html").read_text() == "first"
    assert (report / "comments").is_dir()


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".asv").write_text("no folder")
    with pytest.raises(TrackerError, match="cannot be written"):
        replace_site(tmp_path / ".asv" / "report", [("index.html", "x")])
