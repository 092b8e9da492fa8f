"""How long the report takes with a long history:

    .venv/bin/python tests/unit/site_speed.py [COMMITS [CASES]]

Made-up times of all nine variants, one session a commit; prints seconds, and what the pages weigh. No test: a
clock's figure is a measurement.
"""

import resource
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from builders import HD64  # noqa: E402
from gpu_rig import VARIANTS  # noqa: E402
from site_builders import site, timed, timed_history  # noqa: E402
from test_site_in_browser import written  # noqa: E402

from kernels.variants import FACTS, Variant  # noqa: E402
from scripts.tracker.measured import History  # noqa: E402
from scripts.tracker.model import Commit, Role, VariantFacts  # noqa: E402

PAGES = ("index.html", "commits.html", "cases/hd64-causal-fp16-n2048.html")


def made_up(commits: int, cases: int) -> History:
    past = timed_history()
    past.variants = {
        v.value: VariantFacts(Role(FACTS[v].role.value), FACTS[v].exact, FACTS[v].summary) for v in Variant
    }
    past.commits = [Commit(f"{n:040x}", f"{n:010x}") for n in range(commits)]
    past.measurements, past.failures, past.timings = [], {}, []
    past.flops = {(2048 * (case + 1), 64, True): 1e12 for case in range(cases)}
    for n, commit in enumerate(past.commits):
        for i, variant in enumerate(VARIANTS):
            measured = timed(commit, variant, 1e-3 * (1 + (7 * n + 11 * i) % 13 * 1e-3))
            past.timings += [
                replace(measured, case=replace(HD64, n_ctx=2048 * (case + 1))) for case in range(cases)
            ]
    return past


def main() -> None:
    commits, cases = (int(word) for word in (sys.argv[1:] + ["5000", "4"][len(sys.argv) - 1 :]))
    print("rendering: about a minute for 5000 commits and 40 cases", flush=True)
    past = made_up(commits, cases)
    started_s = time.monotonic()
    files = site([], past)
    print(f"{commits} commits, {cases} cases: {time.monotonic() - started_s:.1f} s to render")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most, with the values")
    data = [len(text) for name, text in files.items() if name.startswith("data/")]
    size_mb = sum(map(len, files.values())) / 1e6
    print(f"{len(files)} files, {size_mb:.0f} MB; a case's data {max(data) / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        folder = written(Path(scratch), files)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name in PAGES:
            page = browser.new_page()
            started_s = time.monotonic()
            page.goto((folder / name).as_uri())
            if name.startswith("cases/"):
                page.wait_for_selector("#ratio .scatterlayer .trace")
            took_s = time.monotonic() - started_s
            print(f"{name}: shown after {took_s:.2f} s, {(folder / name).stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
