"""How long a reader waits for the lab's front door, and how heavy it is.

    python benchmarks/lab_page.py [results/lab.html]

Opens the page in Chromium and takes the median of nine visits, by the page's own clock: until it answers, a click on a
file, a search. Needs Playwright and Chromium.
"""

import shutil
import statistics
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

VISITS = 9
LIMITS = {"page, MB": 1.0, "until it answers, s": 0.5}
SWITCHES = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
ACTIONS = {
    "a file with all that it is made of, s": "choose(data.files[data.jobs.at(-1).makes[0]][0])",
    "search, s": "search('softmax')",
}
TIMED = """(action) => { const began = performance.now(); eval(action); document.body.offsetHeight;
return (performance.now() - began) / 1e3; }"""


def visit(browser, page: Path) -> dict[str, float]:
    """Seconds of one visit, each with the layout that follows."""
    context = browser.new_context(viewport={"width": 1920, "height": 1080}, bypass_csp=True)
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready]")
    seconds = {"until it answers, s": tab.evaluate("document.documentElement.dataset.ready / 1e3")}
    seconds |= {name: tab.evaluate(TIMED, action) for name, action in ACTIONS.items()}
    context.close()
    return seconds


def main() -> None:
    page = Path(sys.argv[1] if len(sys.argv) > 1 else "results/lab.html").absolute()
    if not page.exists():
        sys.exit(f"{page} does not exist; build it with `snakemake --cores 4 results/lab.html`.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=SWITCHES)
        visits = [visit(browser, page) for _ in range(VISITS)]
        browser.close()
    figures = {"page, MB": page.stat().st_size / 1e6}
    figures |= {name: statistics.median(each[name] for each in visits) for name in visits[0]}
    for name, figure in figures.items():
        limit = LIMITS.get(name)
        print(f"{name:40s} {figure:8.3f}" + (f"   limit {limit:g}, ratio {figure / limit:.2f}" if limit else ""))


if __name__ == "__main__":
    main()
