"""What every page goes out with."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.live.snapshot import LiveMember
from dashboard.models import Group
from dashboard.pages import texts
from dashboard.push import frames
from tests.dashboard.agents import FakeAgent
from tests.dashboard.pages.test_access import addresses

HIDDEN = "\x1b[2J\u202etxt.exe\u2066\u200b\x85"
SHOWN = "[U+001B][2J[U+202E]txt.exe[U+2066][U+200B][U+0085]"


def test_no_page_is_kept_by_a_cache(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    for address in (*addresses(group), "/nothing-here/", "/healthz", "/readyz"):
        assert visitor.get(address)["Cache-Control"] == "no-store", address
    assert "no-store" in Client().get("/login/")["Cache-Control"]
    assert "no-store" not in visitor.get("/static/dashboard/css/page.css")["Cache-Control"]


def test_what_is_not_seen_is_shown_by_its_number(user: User) -> None:
    user.username = f"ann{HIDDEN}"
    user.save()
    client = Client()
    client.force_login(user)
    answer = client.get("/")
    text = answer.content.decode()
    assert f"ann{SHOWN}" in text
    assert texts.visible(text) == text
    assert int(answer.get("Content-Length", len(answer.content))) == len(answer.content)


def test_so_is_what_a_member_says_of_itself_in_a_frame() -> None:
    row = LiveMember.__new__(LiveMember)
    told = {"id": "a-1", "state": "unable", "why": HIDDEN, "owned": 0, "leaving": False}
    for name, value in told.items():
        object.__setattr__(row, name, value)
    assert frames.member_of(row) == {**told, "why": SHOWN}


@pytest.mark.parametrize("text", ["tab\tand\r\nline", "\u0645\u06cc\u200c\u062e", "1\u202f000"])
def test_what_texts_are_written_with_stays(text: str) -> None:
    assert texts.visible(text) == text
