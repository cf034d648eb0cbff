"""A real Chromium for the lab's pages, driven by Playwright; without either, these tests are skipped and say so."""

import shutil
import sys
from pathlib import Path

import pytest

for package in ("minicompile", "minilab", "minikernel"):  # what is shown: explored.py, front_door.py, model_artefact.py
    sys.path.insert(0, str(Path(__file__).parents[1] / package))

SWITCHES = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--process-per-site",  # with what `opened` does, a new page starts no process
]
LONGEST_WAIT = 120_000  # milliseconds that nothing takes, on any machine
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """The browser, for all tests of the session."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install playwright")
    chromium = next((path for name in CHROMIUMS if (path := shutil.which(name))), None)
    if chromium is None:
        pytest.skip(f"no browser: none of {', '.join(CHROMIUMS)} is on the PATH")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=chromium, args=SWITCHES)
        yield started
        started.close()


class Opened:
    """A page that is open, and all that went wrong in it."""

    def __init__(self, page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.route("**/*", self._only_files)

    def _only_files(self, route) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            self.requests.append(route.request.url)
            route.abort()

    def go(self, path, address="") -> None:
        self.page.goto(f"{Path(path).as_uri()}{address}")
        self.page.wait_for_selector("html[data-ready]", timeout=LONGEST_WAIT)


@pytest.fixture(scope="session")
def context(browser, tmp_path_factory):
    """A function `context(**options)`: the browser's context of these options, and a page in it that stays open.

    A page that this one opens shares its process; any other would start one.
    """
    empty = tmp_path_factory.mktemp("browser") / "empty.html"
    empty.write_text("<title>empty</title>")
    known = {}

    def made(**options):
        key = tuple(sorted(options.items()))
        if key not in known:
            known[key] = browser.new_context(**options)
            known[key].set_default_timeout(LONGEST_WAIT)
            known[key].new_page().goto(empty.as_uri())
        return known[key], known[key].pages[0]

    return made


@pytest.fixture
def opened(context, request):
    """An empty page of 1280 by 800 pixels, or as the test's `options` say; a test fails if the page erred or asked
    for anything but its own file. Nothing that a page keeps is left to the next."""
    options = dict(getattr(request, "param", {}))
    size = options.pop("viewport", {"width": 1280, "height": 800})
    media = {name: options.pop(name) for name in ("color_scheme", "reduced_motion") if name in options}
    its, stays = context(**options)
    with its.expect_page() as page:
        stays.evaluate("void open('about:blank')")
    one = Opened(page.value)
    one.page.set_viewport_size(size)
    one.page.emulate_media(**media)
    yield one
    one.page.close()
    its.clear_permissions()
    stays.evaluate("localStorage.clear()")
    assert one.errors == []
    assert one.requests == []
