"""How long a reader waits for an explorer page, and how heavy it is.

    python benchmarks/explorer.py CAPTURE.json [CAPTURE.json]

Writes the page of one capture, or of two side by side, opens it in Chromium and takes the median of nine visits, by the
page's own clock: until it answers, the choice of the line that lights the most others, a move by key, a search. Needs
Playwright and Chromium.
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from minicompile import render_explorer
from minilab.files import read_json

VISITS = 9
LIMITS = {"page, MB": 2.0, "until it answers, s": 1.0}
SWITCHES = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
BUSIEST = """() => { let most = null, count = -1;
for (const pane of app.captures[0].panes) for (let number = 1; number <= pane.lines.length; number++) {
  const lit = app.captures[0].light([`${pane.id}:${number}`]).size;
  if (lit > count) [most, count] = [`${pane.id}:${number}`, lit]; }
return [most, count]; }"""
TIMED = """(action) => { const began = performance.now(); eval(action); document.body.offsetHeight;
return (performance.now() - began) / 1e3; }"""


def visit(browser, page: Path) -> dict[str, float]:
    """Seconds of one visit, each with the layout that follows."""
    context = browser.new_context(viewport={"width": 1920, "height": 1080}, bypass_csp=True)
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready]")
    seconds = {"until it answers, s": tab.evaluate("document.documentElement.dataset.ready / 1e3")}
    line, count = tab.evaluate(BUSIEST)
    actions = {
        f"busiest line ({count} lit), s": f"app.choose(app.captures[0], '{line}')",
        "down by key, s": "app.chosen.view.move(1)",
        "search, s": "app.search.find('load')",
    }
    for name, action in actions.items():
        seconds[name] = tab.evaluate(TIMED, action)
    context.close()
    return seconds


def main() -> None:
    captures = [read_json(path) for path in sys.argv[1:]]
    if not captures:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder, "explorer.html")
        began = time.perf_counter()
        render_explorer(captures, page)
        figures = {"written, s": time.perf_counter() - began, "page, MB": page.stat().st_size / 1e6}
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=SWITCHES)
        visits = [visit(browser, page) for _ in range(VISITS)]
        browser.close()
    figures |= {name: statistics.median(each[name] for each in visits) for name in visits[0]}
    for name, figure in figures.items():
        limit = LIMITS.get(name)
        print(f"{name:36s} {figure:8.3f}" + (f"   limit {limit:g}, ratio {figure / limit:.2f}" if limit else ""))


if __name__ == "__main__":
    main()
