"""Pictures of pages by a real Chromium: each address, light and dark, wide and narrow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal, get_args

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from dashboard.evaluation.runner import tell
from dashboard.evaluation.screenshots.addresses import LOGGED_OUT, Address, UnknownPage, is_page
from dashboard.evaluation.screenshots.chromium import FLAGS, executable

WIDTHS, HEIGHT = (1440, 390), 900
DRAWN_MS = 600  # from the page to what scripts draw in it
INDEX = "index.html"
DOCS_WIDTH = 1100
# Of the documents: name -> what Address.file says, and how high.
DOCS = {
    "map": ("group", 620),
    "compared": ("group-compared", 700),
    "ownership": ("group-ownership", 700),
    "plan": ("plan", 820),
    "overview": ("overview", 620),
}

Scheme = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Look:
    scheme: Scheme
    width: int

    @property
    def suffix(self) -> str:
        return f"{self.scheme}-{self.width}"


LOOKS = tuple(Look(s, width) for s in get_args(Scheme) for width in WIDTHS)


@contextmanager
def browser() -> Iterator[Browser]:
    """Raises NoChromium."""
    path = executable()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


class Photographer:
    """`wrong` names what pages said that they should not, and those wider than their window."""

    def __init__(self, chromium: Browser, base: str, folder: Path) -> None:
        self._chromium = chromium
        self._base = base
        self._folder = folder
        self._sessions: dict[bool, BrowserContext] = {}
        self.taken: dict[str, list[str]] = {}  # address -> files
        self.wrong: list[str] = []

    def log_in(self, name: str, password: str) -> None:
        context = self._chromium.new_context(base_url=self._base)
        page = context.new_page()
        page.goto("/login/")
        page.fill("[name=username]", name)
        page.fill("[name=password]", password)
        page.click("button.first")
        page.wait_for_url(f"{self._base}/")
        self._sessions[True] = context
        self._sessions[False] = self._chromium.new_context(base_url=self._base)

    def pages(self, found: Sequence[Address]) -> list[Address]:
        """Those that are pages. Raises UnknownPage for an answer that is neither page nor file."""
        kept = []
        for address in found:
            session = self._sessions[address.name not in LOGGED_OUT]
            answer = session.request.get(address.path, max_redirects=0)
            shown = is_page(answer.status, answer.headers.get("content-type", ""))
            if shown is None:
                raise UnknownPage(f"{address.path} answered {answer.status}: it is no page to show")
            if shown:
                kept.append(address)
        return kept

    def take(self, found: Sequence[Address]) -> None:
        for look in LOOKS:
            tell(f"{len(found)} pages, {look.scheme}, {look.width} wide")
            for is_in in (False, True):
                context = self._context(look, is_in=is_in)
                page = context.new_page()
                self._listen(page)
                for address in found:
                    if is_in is (address.name not in LOGGED_OUT):
                        self._one(page, address, look)
                context.close()

    def take_for_docs(self, found: Sequence[Address], folder: Path) -> None:
        """The top of some pages, without what else is around."""
        context = self._context(Look("light", DOCS_WIDTH), is_in=True)
        page, paths = context.new_page(), {one.file: one.path for one in found}
        for name, (file, height) in DOCS.items():
            page.goto(paths[file])
            page.wait_for_timeout(DRAWN_MS)
            area = {"x": 0, "y": 0, "width": DOCS_WIDTH, "height": height}
            page.screenshot(path=folder / f"{name}.png", clip=area)  # type: ignore[arg-type]
        context.close()

    def _context(self, look: Look, *, is_in: bool) -> BrowserContext:
        return self._chromium.new_context(
            base_url=self._base,
            storage_state=self._sessions[is_in].storage_state(),
            viewport={"width": look.width, "height": HEIGHT},
            color_scheme=look.scheme,
        )

    def _listen(self, page: Page) -> None:
        def complains(kind: str, text: str) -> None:
            if kind in ("error", "warning"):
                self.wrong.append(f"{page.url}: {text}")

        page.on("console", lambda message: complains(message.type, message.text))
        page.on("pageerror", lambda error: complains("error", str(error)))

    def _one(self, page: Page, address: Address, look: Look) -> None:
        page.goto(address.path)
        page.wait_for_timeout(DRAWN_MS)
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > look.width:
            self.wrong.append(f"{address.path} is {wide} wide in a window of {look.width}")
        name = f"{address.file}-{look.suffix}.png"
        page.screenshot(path=self._folder / name, full_page=True)
        self.taken.setdefault(address.path, []).append(name)

    def write_index(self) -> Path:
        path = self._folder / INDEX
        path.write_text(index(self.taken))
        return path


def index(taken: dict[str, list[str]]) -> str:
    """A page of all pictures, by address."""
    rows = "\n".join(
        f"<h2>{escape(address)}</h2>\n<p>"
        + " ".join(
            f'<a href="{escape(file)}"><img src="{escape(file)}" alt="{escape(file)}"'
            ' loading="lazy" height="300"></a>'
            for file in files
        )
        + "</p>"
        for address, files in taken.items()
    )
    head = '<meta charset="utf-8"><title>Screenshots of Evenkeel</title>'
    return f'<!doctype html>\n<html lang="en">{head}\n<h1>Screenshots</h1>\n{rows}\n</html>\n'
