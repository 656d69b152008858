"""A document as HTML: CommonMark with tables, no HTML of its own, links that lead within Help.

A link to a file that Help does not show stays as text that names the file. Headings have the
anchors that code forges give them, so that a link works in both places.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dashboard.pages.help.documents import BY_PATH, IMAGES, Document

LEVELS = {"h2": 2, "h3": 3}
RIGHT = "text-align:right"


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """`headings`: of levels 2 and 3, in their order."""

    title: str
    body: SafeString
    headings: tuple[Heading, ...]


def render(document: Document) -> Rendered:
    """Raises FileNotFoundError."""
    return _rendered(document, document.file.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _rendered(document: Document, changed_ns: int) -> Rendered:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(document.file.read_text())
    headings = list(_headings(tokens))
    folder = document.path.parent
    for token in tokens:
        _no_style(token)
        if token.children:
            token.children = list(_within(token.children, folder))
    parts = list(_boxed(tokens))
    html = parser.renderer.render(parts, parser.options, {})
    body = mark_safe(html)  # the parser escapes what the document says
    return Rendered(document.title, body, tuple(h for h in headings if h.level > 1))


# --- headings -------------------------------------------------------------------------------------


def anchor_of(text: str) -> str:
    """As forges make it: lower case, words joined by “-”, without punctuation."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _headings(tokens: Sequence[Token]) -> Iterator[Heading]:
    """Gives each its anchor; the second of a name has a number."""
    seen: dict[str, int] = {}
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        text = "".join(
            t.content for t in inline.children or () if t.type in ("text", "code_inline")
        )
        anchor = anchor_of(text)
        count = seen[anchor] = seen.get(anchor, -1) + 1
        anchor = f"{anchor}-{count}" if count else anchor
        opening.attrSet("id", anchor)
        yield Heading(LEVELS.get(opening.tag, 1), anchor, text)


# --- links and images -----------------------------------------------------------------------------


def _within(children: Sequence[Token], folder: PurePosixPath) -> Iterator[Token]:
    """Links and images of one paragraph, as Help serves them."""
    dropped: list[bool] = []
    for token in children:
        if token.type == "link_open":
            dropped.append(not _leads(token, folder))
            if dropped[-1]:
                continue
        elif token.type == "link_close" and dropped.pop():
            continue
        elif token.type == "image":
            _shown(token, folder)
        yield token


def _leads(token: Token, folder: PurePosixPath) -> bool:
    """Whether the link is one here; it is rewritten then."""
    parts = urlsplit(str(token.attrGet("href") or ""))
    if parts.scheme or parts.netloc:
        token.attrSet("rel", "noopener noreferrer")
        return True
    if not parts.path:
        return True
    document = BY_PATH.get(_resolved(folder, parts.path))
    if document is None:
        return False
    anchor = f"#{parts.fragment}" if parts.fragment else ""
    token.attrSet("href", reverse("help_page", args=[document.slug]) + anchor)
    return True


def _shown(token: Token, folder: PurePosixPath) -> None:
    path = _resolved(folder, str(token.attrGet("src") or ""))
    if path.parent == IMAGES:
        token.attrSet("src", reverse("help_image", args=[path.name]))
    token.attrSet("loading", "lazy")


def _resolved(folder: PurePosixPath, path: str) -> PurePosixPath:
    return PurePosixPath(posixpath.normpath(folder / path))


# --- tables ---------------------------------------------------------------------------------------


def _no_style(token: Token) -> None:
    if (style := token.attrs.pop("style", None)) is not None and style == RIGHT:
        token.attrSet("class", "n")


def _boxed(tokens: Sequence[Token]) -> Iterator[Token]:
    """A wide table scrolls in its own box."""
    for token in tokens:
        if token.type == "table_open":
            yield _box("scroll_open", 1, {"class": "scroll"})
        yield token
        if token.type == "table_close":
            yield _box("scroll_close", -1, {})


def _box(kind: str, nesting: Any, attributes: dict[str, str | int | float]) -> Token:
    return Token(kind, "div", nesting, attrs=attributes, block=True)
