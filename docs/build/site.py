"""The lab's pages as a static site: `python -m docs.build.site site/`, then open `site/index.html`.

What belongs to it is computed: the README, what it links to, and so on from page to page; the reports and explorers
that have been built here; the recorded explorers; the first look. A file of code that a page links to becomes a page.
MkDocs and its theme Material make the HTML, with a search that needs no network and no server.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from itertools import pairwise, takewhile
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from docs.build.site_explorers import EXPLORERS, draw, explorers, explorers_page, start_page, words
from minicompile.report.first_look.page import write_first_look
from minicompile.report.first_look.records import recorded
from minilab import LabError
from minilab.files import write_text
from minilab.pages.translations import LANGUAGES
from minilab.yaml_files import read_yaml

ROOT = Path(__file__).parents[2]
START, CONTENTS, EXERCISES = "README.md", "docs/README.md", "exercises/README.md"
FIRST_LOOK = Path(
    "docs/first_look.md"
)  # what of the first look Markdown can show; here the page itself takes its place
WORKER = Path(__file__).parent / "data/iframe-worker.js"  # lets the search run where a page is opened as a file
FETCHED = "https://unpkg.com/iframe-worker/shim"  # where Material would have it from
SHOWN = (".html", ".png", ".svg", ".css", ".js")  # as they are; any other file becomes a page of its text
BUILT = ("results/2?/*.md", "results/PHASE_*.md")
MARKDOWN = re.compile(r'href="((?:[^":#?]*/)?)([^":#?/]+)\.md"')
SETTINGS = {
    "plugins": ["search", "offline"],
    "use_directory_urls": False,
    "markdown_extensions": [
        "tables",
        "attr_list",
        {"toc": {"permalink": True}},
        {"pymdownx.highlight": {"anchor_linenums": True}},
        "pymdownx.superfences",
    ],
    "validation": {"links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"}},
}


def theme(language: str) -> dict:
    """The settings of the theme Material."""
    say = words(language)
    palette = [
        {
            "media": f"(prefers-color-scheme: {scheme})",
            "scheme": name,
            "toggle": {"icon": f"material/weather-{icon}", "name": said},
        }
        for scheme, name, icon, said in (
            ("light", "default", "sunny", say("dark")),
            ("dark", "slate", "night", say("light")),
        )
    ]
    return {
        "name": "material",
        "language": language,
        "font": False,  # those would come from a server
        "features": ["navigation.indexes", "navigation.top", "search.highlight", "content.code.copy"],
        "palette": palette,
    }


def links(text: str) -> Iterator[tuple[str, str]]:
    """(words, target) of each link and picture of a Markdown text, in order."""
    for block in MarkdownIt().enable("table").parse(text):
        inside = block.children or []
        for place, token in enumerate(inside):
            if token.type in ("link_open", "image"):
                yield _words(inside, place), str(token.attrs["href" if token.type == "link_open" else "src"])


def _words(inside: list[Token], place: int) -> str:
    """The words of the link that begins there, code among them; none of a picture."""
    if inside[place].type != "link_open":
        return ""
    return "".join(token.content for token in takewhile(lambda token: token.type != "link_close", inside[place:]))


def target_of(page: Path, href: str) -> Path | None:
    """The file of the lab that a link leads to, relative to the lab; None for an anchor or somebody else's page."""
    parts = urlsplit(href)
    if parts.scheme or not parts.path:
        return None
    return Path(os.path.normpath(page.parent / unquote(parts.path)))


def reachable(root: Path, starts: Iterable[Path]) -> list[Path]:
    """The files that can be reached from some pages by links, those pages first; paths are relative to the lab.

    Raises:
        LabError: a link leads to nothing.
    """
    found: dict[Path, None] = {}
    waiting = list(starts)
    while waiting:
        path = waiting.pop(0)
        if path in found:
            continue
        if not (root / path).is_file():
            raise LabError(f"{path} is linked and is no file; mend the link, or build the file.")
        found[path] = None
        if path.suffix == ".md":
            targets = (target_of(path, href) for _, href in links((root / path).read_text()))
            waiting += [target for target in targets if target is not None]
    return list(found)


def as_page(path: Path) -> Path:
    """Where a file lies in the site's sources: code becomes `NAME.md`."""
    if path == FIRST_LOOK:
        return path.with_suffix(".html")
    return path if path.suffix in (".md", *SHOWN) else path.with_name(f"{path.name}.md")


def rewritten(page: Path, text: str, opened: Mapping[Path, str]) -> str:
    """A page's text with its links to files leading to the pages that those become.

    Args:
        page: the page.
        text: its Markdown.
        opened: explorer -> the question at which a link to it opens it.
    """
    for _, href in links(text):
        target, parts = target_of(page, href), urlsplit(href)
        if target is not None and as_page(target) != target:
            text = text.replace(f"]({href})", f"]({parts.path.removesuffix(target.name)}{as_page(target).name})")
        elif target is not None and target in opened and not parts.fragment:
            text = text.replace(f"]({href})", f"]({parts.path}#ask/{opened[target]})")
    return text


def leading_to_pages(html: str) -> str:
    """A page of the lab's own with its links to Markdown files leading to what MkDocs makes of those."""
    return MARKDOWN.sub(lambda found: f'href="{found[1]}{"index" if found[2] == "README" else found[2]}.html"', html)


def code_page(path: Path, text: str) -> str:
    """A file of code as a page, which a search finds after pages of words."""
    language = {".cu": "cuda", ".cuh": "cuda", ".smk": "python", ".cff": "yaml"}.get(path.suffix, path.suffix[1:])
    return f"---\nsearch: {{boost: 0.3}}\n---\n# {path.name}\n\n`{path}`\n\n````{language}\n{text}\n````\n"


def contents(root: Path, reports: list[Path], language: str) -> list[dict]:
    """The navigation: what the README of docs/ lists under each heading, the explorers, the reports.

    Args:
        root: the lab.
        reports: pages that have been built.
        language: of the headings that are the site's own.
    """
    say = words(language)
    sections: dict[str, list[dict]] = {}
    tokens = MarkdownIt().parse((root / CONTENTS).read_text())
    heading = ""
    for before, token in pairwise(tokens):
        if before.type == "heading_open" and before.tag == "h2":
            heading = token.content
        elif token.type == "inline" and heading:
            for called, href in links(token.content):
                target = target_of(Path(CONTENTS), href)
                if target is not None and target.suffix == ".md":
                    sections.setdefault(heading, []).append({called[:1].upper() + called[1:]: str(target)})
    listed: list[dict] = [{say("lab"): START}, {say("first_look"): str(as_page(FIRST_LOOK))}, {say("pages"): CONTENTS}]
    listed += [{name: pages} for name, pages in sections.items()]
    listed += [{say("exercises"): EXERCISES}, {say("explorers"): EXPLORERS}]
    return listed + ([{say("reports"): [str(page) for page in reports]}] if reports else [])


def gather(root: Path, folder: Path, language: str = "en") -> None:
    """Put the site's sources and `mkdocs.yml` into an empty folder.

    Raises:
        LabError: a link leads to nothing.
    """
    reports = [path.relative_to(root) for pattern in BUILT for path in sorted(root.glob(pattern))]
    here = {one.page: one for one in explorers(root, language)}
    opened = {page: one.questions[0].name for page, one in here.items() if one.questions}
    sources = folder / "sources"
    for page, explorer in here.items():
        draw(explorer, language, sources / page)
    for path in reachable(root, [Path(START), Path(CONTENTS), *reports]):
        target = sources / as_page(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path == FIRST_LOOK:
            config = read_yaml(root / "config.yaml")
            write_first_look(recorded(config), config, target, language, home="../index.html")
        elif path.suffix == ".md":
            text = rewritten(path, (root / path).read_text(), opened)
            write_text(target, start_page(here.values(), text, language) if path == Path(START) else text)
        elif target.name != path.name:
            write_text(target, code_page(path, (root / path).read_text()))
        elif path not in here and path.suffix == ".html":
            write_text(target, leading_to_pages((root / path).read_text()))
        elif path not in here:
            shutil.copyfile(root / path, target)
    write_text(sources / EXPLORERS, explorers_page(here.values(), language))
    settings = {
        "site_name": "MiniGPT Lab",
        "docs_dir": "sources",
        "nav": contents(root, reports, language),
        "theme": theme(language),
    }
    write_text(folder / "mkdocs.yml", yaml.safe_dump({**settings, **SETTINGS}, sort_keys=False))


def build(root: Path, site: Path, language: str = "en") -> None:
    """Make the site.

    Args:
        root: the lab.
        site: the folder to write; what an earlier build left there goes.
        language: of the sentences that are written for the site: en or es.

    Raises:
        LabError: MkDocs or its theme is not installed, a link leads to nothing, or the site's folder holds something
            that no build made.
    """
    if not (find_spec("mkdocs") and find_spec("material")):
        raise LabError("MkDocs with Material makes the site and is not installed; run `pip install -e '.[docs]'`.")
    if site.exists() and any(site.iterdir()) and not (site / "sitemap.xml").exists():
        raise LabError(f"{site} holds files that are no site; name an empty folder, or one that a build has filled.")
    with tempfile.TemporaryDirectory() as folder:
        gather(root, Path(folder), language)
        made = Path(folder, "site")
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(made)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise LabError(f"MkDocs makes no site of these pages: {done.stderr.strip()}")
        bring_worker(made)
        if site.exists():
            shutil.rmtree(site)
        shutil.copytree(made, site)


def bring_worker(site: Path) -> None:
    """Have the site's pages take what their search needs from the site itself."""
    shutil.copyfile(WORKER, site / "assets" / WORKER.name)
    for page in site.rglob("*.html"):
        text = page.read_text()
        if FETCHED in text:
            here = os.path.relpath(site / "assets" / WORKER.name, page.parent)
            page.write_text(text.replace(FETCHED, here))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.build.site", description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, help="the folder to write")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="of the site's own words and the questions")
    given = parser.parse_args(arguments)
    try:
        build(ROOT, given.site, given.language)
    except LabError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(f"{given.site / 'index.html'} is the lab's site")
    return 0


if __name__ == "__main__":
    sys.exit(main())
