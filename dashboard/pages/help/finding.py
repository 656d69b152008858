"""What of Help search and pages point to."""

from collections.abc import Iterator
from typing import NamedTuple

from django.urls import reverse

from dashboard.pages.help.documents import DOCUMENTS, OPERATING
from dashboard.pages.help.rendered import anchor_of, render

HITS_MAX = 8


class Section(NamedTuple):
    label: str
    url: str


def sections(text: str) -> Iterator[Section]:
    """At most HITS_MAX, by their headings; none for an empty text."""
    found = (one for one in _all() if text.lower() in one.label.lower())
    if text:
        yield from (one for _, one in zip(range(HITS_MAX), found, strict=False))


def _all() -> Iterator[Section]:
    for document in DOCUMENTS:
        url = reverse("help_page", args=[document.slug])
        yield Section(document.title, url)
        try:
            headings = render(document).headings
        except OSError:
            continue
        for one in headings:
            yield Section(f"{document.title} · {one.text}", f"{url}#{one.anchor}")


def what_to_do(heading: str) -> str:
    """Address of the section of the operating guide with that heading; `_` stands for a space."""
    return f"{reverse('help_page', args=[OPERATING.slug])}#{anchor_of(heading.replace('_', ' '))}"
