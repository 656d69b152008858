"""Mutated requests: what they break or change is found, and each reaches its handler."""

import pytest

from dashboard.evaluation.attack import mutated, routes, run
from dashboard.evaluation.attack.target import Answer, NotJudged, Person
from tests.dashboard.attack.systems import answering, let_in, sockets_that


def test_mutated_requests_that_change_something_though_refused_are_found() -> None:
    for check in (mutated.pages, mutated.agents):
        with answering(422) as target:
            assert check(target).problems == []
            assert target.requests >= 2 * len(routes.verbs())
        with answering(422, changes=True) as target:
            assert check(target).problems[0].endswith("answered 422 and changed key a")


def test_a_page_that_is_only_seen_may_change_nothing() -> None:
    with answering(200, changes=True) as target:
        assert "answered 200 and changed key a" in mutated.pages(target).problems[0]


def test_somebody_who_was_logged_out_signs_in_again() -> None:
    with answering(302, {"Location": "/login/"}) as target:
        person = target.sign_in()
        person.session = "old"
        assert person.ask("POST", "/logout/").may_change
        person.sign_in_again()
        assert (person.session, person.is_over) == ("session", False)


def test_forms_are_read_with_all_that_they_send() -> None:
    page = b"""<input type="hidden" name="csrfmiddlewaretoken" value="x">
      <input name="token" value="5"><button name="do" value="rotate">Rotate</button>
      <button class="a" name="do" value="revoke">Revoke</button><textarea name="why"></textarea>
      <a href="?page=2&amp;sort=name"><pre class="wrap" id="token">ekt_x-Y_1</pre>"""
    with answering(200, body=page) as target:
        person = Person(target, "session")
        fields, names = person.fields("/")
        assert fields == {"token": ["5"], "do": ["rotate", "revoke"], "why": [""]}
        assert names == ["do", "page", "sort", "token", "why"]
        assert person.new_token("g") == "ekt_x-Y_1"
    with answering(200) as target, pytest.raises(NotJudged, match="made none: 200"):
        Person(target, "session").new_token("g")


def test_requests_that_never_reach_their_handler_show_nothing() -> None:
    for check in (mutated.pages, mutated.agents):
        with answering(403) as target, pytest.raises(NotJudged, match="0 of 2 requests reached"):
            check(target)


def test_sockets_that_break_are_found() -> None:
    with sockets_that(let_in, 1000) as target:
        assert mutated.sockets(target).problems == []
        assert target.server_errors == []
    with sockets_that(let_in, 1011) as target:
        assert not run.judge("mutated_sockets", mutated.sockets, target).held
    with sockets_that(let_in, 1011) as target:
        for number in range(20):  # also where the browser says nothing, and text that is none
            mutated.talk(target, "/ws/", "", ["\ud800", b"x"][: number % 3])
        assert target.server_errors == ["socket /ws/: closed with 1011"] * 20
    counted = iter(range(1_000))
    with sockets_that(let_in, 1000) as target:
        target.state = lambda: {"key a": str(next(counted)).encode()}
        assert mutated.sockets(target).problems[0].endswith("changed key a")


def test_a_server_that_says_not_a_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutated, "SOCKET_TIMEOUT_S", 0.3)
    with sockets_that(let_in, 0) as target:
        assert mutated.talk(target, "/ws/", "", []) == 0
        assert target.server_errors[0].startswith("socket /ws/: TimeoutError")


def test_answers_that_may_change_something_are_those_that_were_taken() -> None:
    assert Answer(200).may_change
    assert not Answer(200).that_changes_nothing().may_change
    assert not Answer(302, {"location": "/login/?next=/"}).may_change
    assert Answer(302, {"location": "/groups/"}).may_change
    assert Answer(302, {"location": "/login/"}).may_change, "after a log out"
    made = Answer(200, body=b'<pre class="wrap" id="token">ekt_a</pre>')
    assert mutated.of_form("POST", made).may_change
    assert not mutated.of_form("GET", made).may_change
    assert not mutated.of_form("POST", Answer(200, body=b"<form>")).may_change
    assert not Answer(400).may_change
    assert not Answer(0).may_change
