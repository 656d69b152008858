"""Every page's address in a system that has one of everything, by the routes themselves.

A route whose parameter nobody gives a value for, and an answer that is neither a page nor said to
be none, are errors: a new page is photographed or named here, never left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from assignment.errors import EvenkeelError
from dashboard.evaluation.attack.routes import Page, pages

HTML = "text/html"
LOGGED_OUT = frozenset({"login"})  # who is logged in is led on
# Name -> why it is no page, where it does not show by a form only (405) or by a file's kind.
NOT_PAGES: Mapping[str, str] = {
    "metrics": "by a token of its own",
    "single_sign_on": "leads to a provider, and there is none",
    "single_sign_on_callback": "a provider's answer, and there is none",
    "group_map_bytes": "bytes of one moment",
    "epoch_changes": "JSON of two epochs",
    "help_image": "a picture",
}
AS_OF = {"at": "?epoch={epoch}"}
# Name -> further looks at the same page: what their pictures' names end with -> query.
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "group": {"at": "?epoch={epoch}", "compared": "?epoch={before}&vs={epoch}"},
    **dict.fromkeys(("group_members", "group_partitions", "group_ownership"), AS_OF),
    **dict.fromkeys(("group_balance", "group_plans", "group_attention", "group_settings"), AS_OF),
    "group_history": {
        "ownership": "?show=ownership",
        "scale-downs": "?show=scale-downs",
        **AS_OF,
    },
    "search": {"found": "?q=flights"},
}


class UnknownPage(EvenkeelError):
    """A route that nobody knows how to show, or an answer that is no page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """`file`: what its pictures' names begin with."""

    name: str
    path: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """`values`: parameter -> its values, whatever the route. `rows`: route -> what `pk` is there.
    `moments`: what VARIANTS name.
    """

    values: Mapping[str, Sequence[Any]]
    rows: Mapping[str, int]
    moments: Mapping[str, int]


def addresses(known: Known) -> list[Address]:
    """Of every route but NOT_PAGES, in their order. Raises UnknownPage."""
    return [one for page in pages() if page.name not in NOT_PAGES for one in _of(page, known)]


def _of(page: Page, known: Known) -> Iterator[Address]:
    for kwargs in _choices(page, known):
        path = reverse(page.name, kwargs=kwargs)
        which = [str(v) for k, v in kwargs.items() if len(known.values.get(k, ())) > 1]
        file = re.sub(r"[^a-z0-9]+", "-", "-".join([page.name, *which]).lower())
        yield Address(name=page.name, path=path, file=file)
        for suffix, query in VARIANTS.get(page.name, {}).items():
            asked = path + query.format(**known.moments)
            yield Address(name=page.name, path=asked, file=f"{file}-{suffix}")


def _choices(page: Page, known: Known) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{}]
    for parameter in page.parameters:
        values = _values(page, parameter, known)
        found = [{**one, parameter: value} for one in found for value in values]
    return found


def _values(page: Page, parameter: str, known: Known) -> Sequence[Any]:
    if parameter == "pk" and page.name in known.rows:
        return [known.rows[page.name]]
    if values := known.values.get(parameter):
        return values
    raise UnknownPage(
        f"nobody says what {parameter} of the route {page.name!r} is: name a value in"
        " dashboard/evaluation/screenshots/deeds.py"
    )


def is_page(status: int, kind: str) -> bool | None:
    """Of an answer: True: photograph it; False: a form only, or a file; None: neither."""
    if status == 405 or (status == 200 and not kind.startswith(HTML)):
        return False
    return True if status == 200 else None
