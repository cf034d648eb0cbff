"""No dead link in what a reader reads: README, docs, exercises, records, and whatever has been built here."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "minilab"))

from front_door import make_page
from links import dead_links

ROOT = Path(__file__).parents[1]
BUILT_ELSEWHERE = "results/recorded/"  # reports there link to what lay beside them where they were built


def read_by_people() -> list[str]:
    """Markdown, notebooks and pages of the checkout, and those that were built in it."""
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.ipynb"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.split()
    built = [str(path.relative_to(ROOT)) for kind in ("md", "html") for path in (ROOT / "results").rglob(f"*.{kind}")]
    found = {name for name in (*tracked, *built) if (ROOT / name).exists()}
    return sorted(name for name in found if not name.startswith(BUILT_ELSEWHERE) and "/templates/" not in name)


@pytest.mark.parametrize("name", read_by_people())
def test_no_link_is_dead(name: str):
    assert dead_links(ROOT / name) == []


def test_no_link_of_the_front_door_is_dead(tmp_path):
    page = make_page(tmp_path)
    assert dead_links(page) == []
    (tmp_path / "results/24/README.md").unlink()
    assert set(dead_links(page)) == {"24/README.md"}


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("[x](there.md) ![y](there.md)", []),
        ("[x](gone.md)", ["gone.md"]),
        ("[x](there.md#some-heading-2)", []),
        ("[x](there.md#no-heading)", ["there.md#no-heading"]),
        ("# Here\n[x](#here) [y](#not-here)", ["#not-here"]),
        ("[x](https://example.org/gone)", []),
        ("`[x](gone.md)`", []),
    ],
)
def test_a_dead_link_is_seen(tmp_path, text: str, dead: list[str]):
    (tmp_path / "there.md").write_text("## Some heading, 2\n")
    (tmp_path / "page.md").write_text(text)
    assert dead_links(tmp_path / "page.md") == dead
