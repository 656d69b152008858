"""What hostile senders make of a good request: values, forms, addresses, messages, frames.

Pure, but for the dice it is given; the same seed makes the same requests.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote

LONG = 5_000
DEEP = (30, 955, 20_000)  # lists in lists
FIELDS_MANY = 1_100  # more than Django takes of a form
FRAME_MAX = 5_000
SPOT = "@@"  # where a raw text goes into a document

TEXTS = (
    *("", " ", "0", "-1", "1", "00", "1.5", "1e400", "-1e400", "NaN", "inf", "٣", "１２"),
    *(str(2**31), str(2**53 - 1), str(2**63 - 1), str(2**63), str(2**64), "9" * 400, "9" * 4_300),
    *("\x00", "a\x00b", "\r\nX-A: b", "\u202eab", "\u200b", "\ufeff", "\U0001f600", "é" * 200),
    *("＝1+1", "=1+1", "@x", "<script>alert(1)</script>", "'\"`;--", "{{7*7}}", "%00", "%s%n"),
    *("../../../../etc/passwd", "..", ".", "/", "\\", "*", "[", "{", "ek:{other}:meta", "a b"),
    *("x" * 101, "x" * LONG, "true", "null", "[1,2]", '{"a":1,"a":2}', "5-0", "flights:0"),
    *("\ud800", "a\udfffb", r'{"a":"\u0000"}', r'{"\ud800":1}', "0001-01-01", "2026-13-01"),
)
MOMENTS = (  # before the first and behind the last that can be written in UTC
    *("0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00", "9999-12-31T23:59:59.9999"),
    *("9" * 14, "0001-01-01", "-1", "2026-01-31T03:12+23:59"),
)
PARAMETERS = tuple(
    f'{{"config_map": {{"m{half}": ["0-3"]}}}}' for half in ("\\u0000", "\\ud800", "\\udfff\\u0000")
)
# Values that only a rule of their own reads, with what else a form takes to come that far.
AIMED: tuple[Mapping[str, str], ...] = (
    *({name: moment} for name in ("at", "from", "to") for moment in MOMENTS),
    *(
        {"strategy_parameters": text, "strategy": "config", "reason": "x", "partitions": "4"}
        for text in PARAMETERS
    ),
)
NUMBERS = tuple(str(n) for n in (0, 1, 2, 11, 12, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**30))
TOKENS = (
    *("null", "true", "false", "0", "-1", "1.5", "1e400", "-1e400", "NaN", "Infinity", "01", "-0"),
    *(str(2**31), str(2**53 - 1), str(2**63 - 1), str(2**63), str(2**64), "-" + str(2**63)),
    *("9" * 400, "9" * 4_300, "9" * LONG, "0." + "1" * 400, "[]", "{}", '[1,"a",null]'),
    *('"\\ud800"', '"\\u0000"', '"\\u202e"', '""', '" "', '"-1"', '"1e400"', '"NaN"', '"x"'),
    *('"' + "x" * LONG + '"', '"' + str(2**53 - 1) + ' held"', '"' + "9" * 400 + ' held"'),
    *("[" * n + "]" * n for n in DEEP),
    *('{"a":' * n + "1" + "}" * n for n in DEEP),
    "[" + ",".join(["1"] * 1_000) + "]",
    '{"a":1,"a":2}',
)
METHODS = ("GET", "GET", "GET", "GET", "POST", "POST", "POST", "HEAD")


@dataclass(frozen=True, slots=True)
class Mutations:
    dice: Random

    # --- people's pages

    def text(self) -> str:
        if self.dice.random() < 0.9:
            return self.dice.choice(TEXTS)
        return "".join(chr(self.dice.choice((*range(1, 300), 0x202E, 0xFF1D))) for _ in range(12))

    def method(self) -> str:
        return self.dice.choice(METHODS)

    def query(self, names: Sequence[str], values: Sequence[str]) -> str:
        """With its question mark; "" now and then. `values`: what would be right somewhere."""
        pairs = []
        for _ in range(self.dice.randrange(4)):
            name = self.dice.choice(names) if names and self.dice.random() < 0.9 else self.text()
            good = values and self.dice.random() < 0.2
            pairs.append((name, self.dice.choice(values) if good else self.text()))
        if self.dice.random() < 0.2 and (aimed := self.aimed(names)):
            pairs += [(name, value) for name, value in aimed.items() if name in names]
        return "?" + "&".join(f"{as_url(n)}={as_url(v)}" for n, v in pairs) if pairs else ""

    def aimed(self, names: Collection[str]) -> Mapping[str, str]:
        """Of AIMED, by its first name; nothing where none is."""
        fitting = [one for one in AIMED if next(iter(one)) in names]
        return self.dice.choice(fitting) if fitting else {}

    def form(self, good: Mapping[str, str]) -> bytes:
        """As a browser encodes it, with one to three things wrong."""
        pairs = list(good.items())
        for _ in range(self.dice.randint(1, 3)):
            self.dice.choice(FORM_CHANGES)(self, pairs)
        body = "&".join(f"{as_url(name)}={as_url(value)}" for name, value in pairs).encode()
        return body[: self.dice.randrange(len(body) + 1)] if self.dice.random() < 0.05 else body

    # --- agents' messages

    def message(self, good: Mapping[str, Any]) -> bytes:
        """JSON, or what once was JSON, with one to three things wrong."""
        document, raw = json.loads(json.dumps(good)), list[str]()
        for _ in range(self.dice.randint(1, 3)):
            self.dice.choice(MESSAGE_CHANGES)(self, document, raw)
        text = json.dumps(document)
        for token in raw:
            text = text.replace(f'"{SPOT}"', token, 1)
        return self._bytes(text.encode("utf-8", "surrogatepass"))

    def _bytes(self, body: bytes) -> bytes:
        """Now and then broken below JSON."""
        wrong = self.dice.random()
        at = self.dice.randrange(len(body) + 1)
        if wrong < 0.04:
            return body[:at]
        if wrong < 0.08:
            return body[:at] + bytes([self.dice.randrange(256)]) + body[at + 1 :]
        if wrong < 0.1:
            return body + self.dice.choice((b"}", b"\x00", b" {}", b"\xff\xfe", b"\n" * 1_000))
        return body

    def frame(self) -> bytes | str:
        """What a browser might say over a socket, text or bytes."""
        if self.dice.random() < 0.5:
            return self.text()[:FRAME_MAX]
        return self.dice.randbytes(self.dice.choice((0, 1, 100, 1_023, 1_025, FRAME_MAX)))


def as_url(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


# --- changes of a form: a list of (name, value)

Pairs = list[tuple[str, str]]


def _other_value(of: Mutations, pairs: Pairs) -> None:
    if pairs:
        at = of.dice.randrange(len(pairs))
        pairs[at] = pairs[at][0], of.text()


def _aimed(of: Mutations, pairs: Pairs) -> None:
    aimed = of.aimed([name for name, _ in pairs])
    pairs[:] = [(name, aimed.get(name, value)) for name, value in pairs]


def _less(of: Mutations, pairs: Pairs) -> None:
    if pairs:
        pairs.pop(of.dice.randrange(len(pairs)))


def _twice(of: Mutations, pairs: Pairs) -> None:
    if pairs:
        pairs.append((of.dice.choice(pairs)[0], of.text()))


def _unknown(of: Mutations, pairs: Pairs) -> None:
    pairs.append((of.dice.choice(("do", "member", "id", "next", of.text())), of.text()))


def _many(of: Mutations, pairs: Pairs) -> None:
    if of.dice.random() < 0.05:
        pairs.extend([("member", of.text()[:20])] * FIELDS_MANY)


FORM_CHANGES: tuple[Callable[[Mutations, Pairs], None], ...] = (
    *(_other_value, _other_value, _other_value, _aimed, _less, _twice, _unknown, _many),
)

# --- changes of a message

Raw = list[str]


def _containers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value, *(c for one in value.values() for c in _containers(one))]
    if isinstance(value, list):
        return [value, *(c for one in value for c in _containers(one))]
    return []


def _somewhere(of: Mutations, document: Any) -> tuple[Any, Any]:
    """A container that holds something, and a place in it."""
    container = of.dice.choice([c for c in _containers(document) if c] or [{"x": 1}])
    places = list(container) if isinstance(container, dict) else range(len(container))
    return container, of.dice.choice(list(places))


def _other_token(of: Mutations, document: Any, raw: Raw) -> None:
    container, place = _somewhere(of, document)
    if SPOT in json.dumps(container[place]):
        return  # one in the place of another would be left over
    container[place] = SPOT
    _put(of, document, raw)


def _put(of: Mutations, document: Any, raw: Raw) -> None:
    """The raw texts go in as they stand in the document, so the new one goes to its own rank."""
    before = json.dumps(document).count(f'"{SPOT}"')
    raw.insert(of.dice.randrange(before), of.dice.choice(TOKENS))


def _no_field(of: Mutations, document: Any, raw: Raw) -> None:
    container, place = _somewhere(of, document)
    if SPOT not in json.dumps(container[place]):
        del container[place]


def _more_fields(of: Mutations, document: Any, raw: Raw) -> None:
    container = of.dice.choice([c for c in _containers(document) if isinstance(c, dict)])
    name = of.text()
    if name not in container:
        container[name] = SPOT
        _put(of, document, raw)


MESSAGE_CHANGES: tuple[Callable[[Mutations, Any, Raw], None], ...] = (
    *(_other_token, _other_token, _other_token, _no_field, _more_fields),
)
