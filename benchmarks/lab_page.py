"""How long a reader waits for the lab's front door, and how heavy it is.

    python benchmarks/lab_page.py [results/lab.html]

Opens the page in Chromium and takes the median of nine visits, by the page's own clock: until it answers, a click on a
file, a search. Needs Playwright and Chromium.
"""

import sys
from pathlib import Path

from page_visits import print_figures, visits

LIMITS = {"page, MB": 0.8, "until it answers, s": 0.5}
ACTIONS = {
    "a file with all that it is made of, s": "choose(data.files[data.jobs.at(-1).makes[0]][0])",
    "search, s": "search('softmax')",
}


def main() -> None:
    page = Path(sys.argv[1] if len(sys.argv) > 1 else "results/lab.html").absolute()
    if not page.exists():
        sys.exit(f"{page} does not exist; build it with `snakemake --cores 4 results/lab.html`.")
    seconds = visits(page, lambda tab: ACTIONS)
    print_figures({"page, MB": page.stat().st_size / 1e6, **seconds}, LIMITS)


if __name__ == "__main__":
    main()
