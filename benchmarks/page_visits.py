"""Visits of a page in Chromium, and their medians beside what they may be at most; needs Playwright and Chromium."""

import shutil
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

from playwright.sync_api import sync_playwright

VISITS = 9
SWITCHES = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
TIMED = """(action) => { const began = performance.now(); eval(action); document.body.offsetHeight;
return (performance.now() - began) / 1e3; }"""


def visits(page: Path, actions_of: Callable[..., Mapping[str, str]]) -> dict[str, float]:
    """Median seconds of the visits: until the page answers, by its own clock, and each action with its layout.

    Args:
        page: the file.
        actions_of: from the open tab to its actions: name -> JavaScript.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=SWITCHES)
        each = [_visit(browser, page, actions_of) for _ in range(VISITS)]
        browser.close()
    return {name: statistics.median(one[name] for one in each) for name in each[0]}


def _visit(browser, page: Path, actions_of: Callable[..., Mapping[str, str]]) -> dict[str, float]:
    context = browser.new_context(viewport={"width": 1920, "height": 1080}, bypass_csp=True)
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready]")
    seconds = {"until it answers, s": tab.evaluate("document.documentElement.dataset.ready / 1e3")}
    seconds |= {name: tab.evaluate(TIMED, action) for name, action in actions_of(tab).items()}
    context.close()
    return seconds


def print_figures(figures: Mapping[str, float], limits: Mapping[str, float]) -> None:
    """A line a figure, with its limit where it has one."""
    for name, figure in figures.items():
        limit = limits.get(name)
        print(f"{name:40s} {figure:8.3f}" + (f"   limit {limit:g}, ratio {figure / limit:.2f}" if limit else ""))
