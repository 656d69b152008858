"""The verdict of attack_check: what held, what did not, what was not judged."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dashboard.evaluation.attack import mutated, refused, run
from dashboard.evaluation.attack.target import Found, NotJudged, Target
from dashboard.management.commands import attack_check
from tests.dashboard.attack.systems import answering, target_at

TRACEBACK = """Traceback (most recent call last):
  File "a.py", line 1, in a
    b()
OverflowError: too large
"""


def test_errors_of_the_server_are_found_in_whatever_check() -> None:
    with answering(500) as target:
        one = run.judge("mutated_agents", mutated.agents, target)
        assert (one.held, "server errors: POST /api/" in one.detail) == (False, True)
        assert len(target.server_errors) >= 6
    log = iter(("", f"INFO: a\n{TRACEBACK}INFO: b\n{TRACEBACK}"))
    target = target_at(1, tracebacks=lambda: run.ends_of_tracebacks(next(log)))
    one = run.judge("any", lambda _: Found("all"), target)
    assert (one.held, len(target.server_errors)) == (False, 2)
    assert "OverflowError: too large" in one.detail
    silent = target_at(1)
    assert not run.judge("any", refused.hosts, silent).held
    assert silent.server_errors[0].endswith("no answer")


def test_what_did_not_hold_comes_before_what_was_not_judged() -> None:
    held = run.Judged(name="a", held=True, detail="all")
    broken = run.Judged(name="b", held=False, detail="it broke")
    unknown = run.Judged(name="c", held=False, detail="not judged", error=True)
    target = target_at(1, requests=5)
    assert run.answer([held], target) == (
        {
            "checks": [{"name": "a", "held": True, "detail": "all"}],
            "requests": 5,
            "server_errors": 0,
            "ok": True,
        },
        0,
    )
    for judged, code in (([held, broken, unknown], 1), ([held, unknown], 3), ([], 3)):
        found, given = run.answer(judged, target)
        assert (found["ok"], given) == (False, code)
    target.note_error("500")
    assert run.answer([held], target)[1] == 1


def test_a_check_that_shows_nothing_is_not_judged() -> None:
    def cannot(target: Target) -> Found:
        raise NotJudged("nobody was there")

    one = run.judge("a", cannot, target_at(1))
    assert (one.held, one.error, one.detail) == (False, True, "not judged: nobody was there")


def test_command_ended_early_answers_what_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def attacked(seed: int, requests: int) -> Iterator[Target]:
        assert (seed, requests) == (5, 9)
        yield target_at(1)

    def ends(target: Target) -> Found:
        raise OSError("the folder is gone")

    monkeypatch.setattr(run, "attacked", attacked)
    monkeypatch.setattr(run, "CHECKS", {"a": lambda target: Found("all"), "b": ends})
    command = attack_check.Command()
    parser = command.create_parser("manage.py", "attack_check")
    options = vars(parser.parse_args(["--seed", "5", "--requests", "9"]))
    found, code = command._found(options)
    assert code == 3
    assert found is not None
    assert (found["ok"], [row["name"] for row in found["checks"]]) == (False, ["a"])
