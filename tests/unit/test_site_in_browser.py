"""The site as a browser shows it, opened from disk: no errors, no network, numbers, keyboard, small screens.

Needs Chromium: the system's, or `python -m playwright install chromium`; skipped with that reason without.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from plotly.offline import get_plotlyjs
from site_builders import HOSTILE, hostile_site, long_history, site, slower, telemetry

from scripts.pages.render import SITE

CASE = "cases/hd64-causal-fp16-n2048.html"
FINDING = "findings/3.1.0_3.2.0_atomic_add_cuda-90.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
        path = next(filter(None, [own if Path(own).exists() else None, *found]), None)
        if path is None:
            pytest.skip("no Chromium here: python -m playwright install chromium")
        # Without a sandbox: a container's root has none, and the pages are our own.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def written(folder: Path, files: dict[str, str]) -> Path:
    assets = {f"assets/{name}": (SITE / name).read_text() for name in ("site.js", "site.css")}
    for name, text in {**files, **assets, "assets/plotly.min.js": get_plotlyjs()}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("site"), site([slower(excerpt="-a\n+b")], seen=telemetry()))


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that must stay without errors and without the network."""
    context = browser.new_context(viewport={"width": 1280, "height": 2500})
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: wrong.append(request.url))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else wrong.append(r.url))
    yield page
    context.close()
    assert wrong == []


def show(page: Page, folder: Path, name: str) -> None:
    page.goto((folder / name).as_uri())


@pytest.mark.parametrize("width", [1280, 400])
def test_every_page_is_without_errors_and_fits_the_screen(page: Page, folder: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 2500})
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.html"))
    assert {CASE, FINDING, "index.html"} < set(names)
    for name in names:
        show(page, folder, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_the_case_page_draws_both_plots(page: Page, folder: Path) -> None:
    show(page, folder, CASE)
    page.wait_for_selector("#speed .scatterlayer .point")
    ratios = page.evaluate("document.getElementById('ratio').data.map(t => [t.name, t.y])")
    assert ratios == [["inline_asm", [1, 2]], ["findings", [2]]]
    assert page.evaluate("document.getElementById('ratio').layout.shapes[0].x1") == 1.4  # the epoch
    speeds = page.evaluate("document.getElementById('speed').data.map(t => t.name)")
    assert speeds == ["atomic_add", "inline_asm"]


def test_a_click_on_a_finding_opens_its_page(page: Page, folder: Path) -> None:
    show(page, folder, CASE)
    mark = page.wait_for_selector("#ratio .scatterlayer .trace:last-child .point")
    box = mark.bounding_box() if mark else None
    assert box
    place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*place)
    page.wait_for_selector("#ratio .hoverlayer .hovertext")
    page.mouse.click(*place)
    page.wait_for_url(f"**/{FINDING}")
    assert page.text_content("h1 .verdict") == "▲ likely regression"


def test_controls_work_by_keyboard(page: Page, folder: Path) -> None:
    show(page, folder, CASE)
    page.wait_for_selector("#ratio .scatterlayer")
    page.focus("#candidate")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.wait_for_function("document.getElementById('ratio').layout.yaxis.type === 'log'")
    show(page, folder, "index.html")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"


def test_the_table_of_the_backward_changes_with_its_selectors(page: Page, folder: Path) -> None:
    show(page, folder, "index.html")
    words = " ".join((page.inner_text("#tflops")).split())
    assert words.startswith(
        "n_ctx 2048 atomic_add issue 4717 76 3.1.0 100 3.2.0 n/a change n/a inline_asm 3.1.0"
    )
    page.select_option("#first", label="3.2.0")
    assert "3.1.0" not in page.inner_text("#tflops")


def test_on_a_small_screen_the_numbers_of_the_backward_are_in_view(page: Page, folder: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    show(page, folder, "index.html")
    box = page.locator("#tflops tr:nth-child(4) td.number").first.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390


def test_on_paper_every_plot_is_drawn(page: Page, folder: Path) -> None:
    page.set_viewport_size({"width": 1280, "height": 300})
    show(page, folder, FINDING)
    assert page.locator("#telemetry-0 .point").count() == 0  # not in view yet
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_selector("#telemetry-0 .point", state="attached")


def test_a_finding_page_draws_confirmation_and_telemetry(page: Page, folder: Path) -> None:
    show(page, folder, FINDING)
    page.wait_for_selector("#confirmation-0 .point")
    page.wait_for_selector("#telemetry-0 .point")
    assert page.evaluate("document.getElementById('confirmation-0').data[0].x") == [25, 25]
    assert page.evaluate("document.getElementById('telemetry-0').data[0].y") == [1980, 1900]


def test_hostile_labels_are_text_in_plots_and_tables(page: Page, tmp_path: Path) -> None:
    written(tmp_path, hostile_site(HOSTILE))
    page.on("dialog", lambda dialog: pytest.fail("a label ran as a script"))
    show(page, tmp_path, CASE)
    page.wait_for_selector("#speed .scatterlayer .point")
    assert "<script>alert(1)</script>" in page.inner_text("#ratio")
    assert page.evaluate("document.querySelectorAll('.plot script, .plot a[href]').length") == 0
    show(page, tmp_path, "index.html")
    assert "<script>alert(1)</script>" in page.inner_text("#tflops")


def test_a_dense_line_has_a_band_and_the_spike(page: Page, tmp_path: Path) -> None:
    written(tmp_path, site([], long_history()))
    show(page, tmp_path, CASE)
    page.wait_for_selector("#speed .scatterlayer .trace")
    traces = page.evaluate(
        "document.getElementById('ratio').data.map(t => [t.fill ?? null, Math.max(...t.y)])"
    )
    [band, line, _] = traces
    assert band[0] == "toself"
    assert line == [None, 3]
