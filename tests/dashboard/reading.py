"""Pages as a browser reads them: without the white space that says nothing."""

import re
from typing import Any

from django.http import HttpResponse
from django.test import Client

_BLOCK = (
    r"(?:html|head|body|main|header|footer|nav|section|div|p|h[1-6]|dl|dt|dd|ul|ol|li|table|caption|"
    r"thead|tbody|tr|th|td|form|label|select|option|datalist|button|details|summary|dialog|"
    r"template|title|link|meta|script|svg|rect|line|polyline|circle|path)"
)
_TAG = r'(?:[^<>"]|"[^"]*")*'
_RULES = (
    (re.compile(r"[ \t\r\n\f]+"), " "),
    (re.compile(rf"<(\w+)({_TAG}?)\s*(/?)>"), r"<\1\2\3>"),  # within a tag's end
    (re.compile(rf"(<{_BLOCK}\b{_TAG}>) (?=\S)"), r"\1"),
    (re.compile(rf"(</{_BLOCK}>) (?=<)"), r"\1"),
    (re.compile(rf" (?=</?{_BLOCK}\b)"), ""),
)
_RAW = re.compile(r"(<(?:pre|script|textarea)\b.*?</(?:pre|script|textarea)>)", re.DOTALL)


def squeezed(page: str) -> str:
    """Runs of white space are one space, and none stands at the edges of blocks."""
    parts = _RAW.split(page)
    for n in range(0, len(parts), 2):
        for rule, made in _RULES:
            parts[n] = rule.sub(made, parts[n])
    return "".join(parts)


class Reader(Client):
    def request(self, **request: Any) -> HttpResponse:  # type: ignore[override]
        answer = super().request(**request)
        if not answer.streaming and answer.headers.get("Content-Type", "").startswith("text/html"):
            sent = len(answer.content)
            answer.content = squeezed(answer.content.decode()).encode()
            if answer.get("Content-Length") == str(sent):  # a wrong one stays wrong
                answer["Content-Length"] = str(len(answer.content))
        return answer
