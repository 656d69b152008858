"""What every command of the evaluation answers, and with which exit code it ends."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import call_command

from assignment.errors import InvalidInput
from dashboard.demo.options import Refused
from dashboard.demo.tree import Stopped, TreeFailed
from dashboard.evaluation.checks.redis_judge import Step, broken, not_judged
from dashboard.evaluation.runner import EvaluationCommand, Found, told
from dashboard.management.commands import redis_check

Ended = tuple[int, str, str]  # exit code, standard output, standard error


@pytest.fixture
def end(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    def run(command: Any, *arguments: str) -> Ended:
        with pytest.raises(SystemExit) as ended:
            call_command(command, *arguments)
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capsys.readouterr()

    return run


def check_of(body: Callable[[], tuple[Found, int]], **more: Any) -> EvaluationCommand:
    class Check(EvaluationCommand):
        def body(self, options: dict[str, Any]) -> tuple[Found, int]:
            return body()

    made = Check()
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_a_verdict_is_the_answer_and_the_exit_code(end: Callable[..., Ended]) -> None:
    command = check_of(lambda: ({"lost": 1, "steps": [{"name": "a", "moves": 2}]}, 1))
    code, out, _ = end(command, "--json")
    assert (code, json.loads(out)) == (1, {"lost": 1, "steps": [{"name": "a", "moves": 2}]})
    assert end(command)[1] == "lost: 1\nsteps  name a  moves 2\n"


def test_what_is_wrong_is_told_and_is_exit_1(end: Callable[..., Ended]) -> None:
    code, out, said = end(check_of(lambda: told({"steps": []}, ["kill: lost is 1"])), "--json")
    assert (code, json.loads(out)) == (1, {"steps": [], "ok": False})
    assert said == "wrong: kill: lost is 1\n"
    assert end(check_of(lambda: told({}, [])), "--json")[:2] == (0, '{"ok": true}\n')


@pytest.mark.parametrize("failed", [1, 3])
@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (Stopped(), "asked to end"),
        (TreeFailed("web did not start"), "web did not start"),
        (Refused("the port is taken"), "the port is taken"),
        (InvalidInput("there is no step"), "there is no step"),
        (OSError("no space left"), "no space left"),
        (KeyError("what nobody thought of"), "KeyError('what nobody thought of')"),
    ],
)
def test_a_run_that_ended_early_is_one_sentence_and_no_verdict(
    error: Exception, sentence: str, failed: int, end: Callable[..., Ended]
) -> None:
    def body() -> tuple[Found, int]:
        raise error

    code, out, said = end(check_of(body, failed=failed), "--json")
    assert (code, out) == (failed, "")
    assert said.splitlines()[-1] == f"evenkeel: {sentence}"


@pytest.mark.parametrize(
    ("step", "code"), [(not_judged("wipe", "vacuous"), 3), (broken("wipe", "struck", ["lost"]), 1)]
)
def test_redis_check_answers_what_it_judged_before_its_tree_failed(
    step: Step, code: int, end: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    def steps(*_: Any) -> Iterator[Step]:
        yield step
        raise TreeFailed("web did not start")

    monkeypatch.setattr(redis_check, "steps_of", steps)
    ended, out, said = end("redis_check", "--json")
    found = json.loads(out)
    assert (ended, found["ok"], [one["name"] for one in found["steps"]]) == (code, False, ["wipe"])
    assert said.splitlines()[-1] == "evenkeel: web did not start"
