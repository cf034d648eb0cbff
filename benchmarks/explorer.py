"""How long a reader waits for an explorer page, and how heavy it is.

    python benchmarks/explorer.py CAPTURE.json [CAPTURE.json]

Writes the page of one capture, or of two side by side, opens it in Chromium and takes the median of nine visits, by the
page's own clock: until it answers, the choice of the line that lights the most others, a move by key, a search. Needs
Playwright and Chromium.
"""

import sys
import tempfile
import time
from pathlib import Path

from page_visits import print_figures, visits

from minicompile import render_explorer
from minilab.files import read_json

LIMITS = {"page, MB": 2.0, "until it answers, s": 1.0}
BUSIEST = """() => { let most = null, count = -1;
for (const pane of app.captures[0].panes) for (let number = 1; number <= pane.lines.length; number++) {
  const lit = app.captures[0].light([`${pane.id}:${number}`]).size;
  if (lit > count) [most, count] = [`${pane.id}:${number}`, lit]; }
return [most, count]; }"""


def actions_of(tab) -> dict[str, str]:
    """What a reader does first; the line that lights the most others is looked up in the page."""
    line, count = tab.evaluate(BUSIEST)
    return {
        f"busiest line ({count} lit), s": f"app.choose(app.captures[0], '{line}')",
        "down by key, s": "app.chosen.view.move(1)",
        "search, s": "app.search.find('load')",
    }


def main() -> None:
    captures = [read_json(path) for path in sys.argv[1:]]
    if not captures:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "explorer.html")
        began = time.perf_counter()
        render_explorer(captures, page)
        figures = {"written, s": time.perf_counter() - began, "page, MB": page.stat().st_size / 1e6}
        figures |= visits(page, actions_of)
    print_figures(figures, LIMITS)


if __name__ == "__main__":
    main()
