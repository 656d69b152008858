"""Every address that the system answers, read from where they are declared: a new one cannot be
forgotten. The pages of Django's own admin are not ours; what asks the API whatever may come is made
of its document (tests/dashboard/api_v1/test_schema.py).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from django.urls import (
    NoReverseMatch,
    Resolver404,
    URLPattern,
    URLResolver,
    get_resolver,
    resolve,
    reverse,
)

from dashboard.agents.routes import PATH
from dashboard.evaluation.attack.mutations import NUMBERS, Mutations, as_url
from dashboard.push.sockets import websocket_urlpatterns

OTHERS = ("admin", "v1")  # namespaces
TRIES = 50
GOOD = 0.7  # share of the parameters that are right
PARAMETER = re.compile(r"<(\w+):(\w+)>")


@dataclass(frozen=True, slots=True)
class Page:
    """One of Django's addresses; `parameters`: name -> "str", "int" or another converter."""

    name: str
    parameters: Mapping[str, str]

    def path(self, group: str, of: Mutations) -> str:
        """With parameters that are not all right, and that are this page's all the same."""
        for _ in range(TRIES):
            values = {name: value_of(kind, group, of) for name, kind in self.parameters.items()}
            try:
                path = reverse(self.name, kwargs=values)
                if resolve(unquote(path)).url_name == self.name:
                    return path
            except (NoReverseMatch, Resolver404, ValueError):
                continue
        return self.good_path(group)

    def good_path(self, group: str) -> str:
        values = {name: group if kind == "str" else 1 for name, kind in self.parameters.items()}
        return reverse(self.name, kwargs=values)


def value_of(kind: str, group: str, of: Mutations) -> str:
    if of.dice.random() < GOOD:
        return group if kind == "str" else of.dice.choice(NUMBERS[:4])
    return of.dice.choice(NUMBERS) if kind == "int" else of.text()


def pages() -> list[Page]:
    return list(_pages(get_resolver().url_patterns, {}))


def _pages(
    patterns: Sequence[URLPattern | URLResolver], outer: Mapping[str, str]
) -> Iterator[Page]:
    for pattern in patterns:
        found = {**outer, **dict(_kind_first(str(pattern.pattern)))}
        if isinstance(pattern, URLResolver):
            if pattern.namespace not in OTHERS:
                yield from _pages(pattern.url_patterns, found)
        elif pattern.name:
            yield Page(pattern.name, found)


def _kind_first(route: str) -> Iterator[tuple[str, str]]:
    for kind, name in PARAMETER.findall(route):
        yield name, kind


def sockets() -> list[str]:
    """As they are declared, "ws/group/<str:name>/"; "" is every other path."""
    return [str(pattern.pattern) for pattern in websocket_urlpatterns]


def socket_path(route: str, group: str, of: Mutations | None = None) -> str:
    """A path of this route; without `of` a right one."""

    def value(found: "re.Match[str]") -> str:
        made = value_of(found[1], group, of) if of else group
        return as_url(made.replace("/", "") or group)  # more would be another route

    return "/" + PARAMETER.sub(value, route) if route else "/ws/" + as_url(of.text() if of else "")


def verbs() -> list[str]:
    """Of the agents' routes: the last words of their addresses."""
    found: Any = re.search(r"\(([a-z_|]+)\)$", PATH.pattern)
    return str(found[1]).split("|")
