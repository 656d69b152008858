"""A system of its own, in a folder of its own, and the checks that attack it.

Worker and beat rest while requests are judged: then what Redis and the database hold is changed by
the web process alone, and compared to the last byte.
"""

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from assignment.wire import API_PREFIX
from dashboard.demo.prepare import read_login
from dashboard.demo.tree import Process, Stopped
from dashboard.evaluation.attack import floods, insiders, mutated, refused
from dashboard.evaluation.attack.state import Held, Witness
from dashboard.evaluation.attack.target import Found, NotJudged, Target, first
from dashboard.evaluation.checks.redis_trees import database
from dashboard.evaluation.judge import FAILED, HELD, VIOLATED
from dashboard.evaluation.system import Run, own_run, run_program
from dashboard.management.arguments import say

METRICS_TOKEN = "EVENKEEL_METRICS_TOKEN"
ATTACKED, OTHER = "attacked", "other"
PARTITIONS = "12"
SET_UP_S = 60.0
QUIET_S = 0.15  # a doorbell that was rung is heard within it
SETTLE_TRIES = 100
RESTING = ("beat", "worker")
TRACEBACK = re.compile(r"^Traceback .*\n(?:[ \t].*\n|\n)*(.*)", re.MULTILINE)
END_MAX = 200

Check = Callable[[Target], Found]
# In this order: what mutated messages leave in Redis is seen by no page before.
CHECKS: Mapping[str, Check] = {
    "redis_without_login": refused.redis,
    "redis_with_a_token": insiders.redis_user,
    "revoked_token": insiders.revoked,
    "another_user": insiders.other_user,
    "agents_without_right": refused.tokens,
    "pages_without_login": refused.strangers,
    "metrics_without_token": refused.readers,
    "pages_forged": refused.forgeries,
    "sockets_without_login": refused.sockets,
    "sockets_of_other_sites": refused.origins,
    "other_hosts": refused.hosts,
    "strangers_too_much": floods.too_much,
    "strangers_half_sent": floods.half_sent,
    "known_agents_stay": floods.known_agents,
    "mutated_pages": mutated.pages,
    "mutated_sockets": mutated.sockets,
    "mutated_agents": mutated.agents,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One check's line. `error`: it could not be judged."""

    name: str
    held: bool
    detail: str
    error: bool = False

    @property
    def row(self) -> dict[str, Any]:
        return {"name": self.name, "held": self.held, "detail": self.detail}


def judge(name: str, check: Check, target: Target) -> Judged:
    """Whatever it is about, an error of the server is wrong too. Raises Stopped."""
    errors, tracebacks = len(target.server_errors), len(target.tracebacks())
    try:
        found = check(target)
    except NotJudged as error:
        return Judged(name=name, held=False, detail=f"not judged: {error}", error=True)
    for ended_with in target.tracebacks()[tracebacks:]:
        target.note_error(f"{name}: in the log of the web process {ended_with}")
    new = target.server_errors[errors:]
    problems = [*found.problems, *([f"server errors: {first(new)}"] if new else [])]
    return Judged(name=name, held=not problems, detail=first(problems) or found.shown)


def answer(judged: Sequence[Judged], target: Target | None) -> tuple[dict[str, Any], int]:
    """What the command says, and its exit code: what did not hold comes before what could not be
    judged.
    """
    requests, errors = (target.requests, len(target.server_errors)) if target else (0, 0)
    code = HELD
    if not judged or any(one.error for one in judged):
        code = FAILED
    if errors or any(not one.held and not one.error for one in judged):
        code = VIOLATED
    rows = [one.row for one in judged]
    found = {"checks": rows, "requests": requests, "server_errors": errors, "ok": code == HELD}
    return found, code


@contextmanager
def attacked(seed: int, requests_a_route: int) -> Iterator[Target]:
    """A system that runs, with two groups. Raises Refused, TreeFailed, Stopped."""
    with (
        database(needed=False),
        _environment(METRICS_TOKEN, secrets.token_urlsafe()) as metrics_token,
        own_run(say, seed, demo=False) as run,
    ):
        demo, data = run.demo, run.demo.options.data
        demo.start_dashboard()
        assert demo.redis is not None  # the environment names no other one here
        witness = Witness(demo.redis.server.url, data / "evenkeel.sqlite3")
        target = Target(
            port=demo.options.port,
            group=ATTACKED,
            other=OTHER,
            tokens={group: _token_of_new(run, group) for group in (ATTACKED, OTHER)},
            login=read_login(data / "login"),
            dice=run.dice,
            say=say,
            state=witness.look,
            settled=lambda: _settled(witness.look),
            memory=lambda: int(psutil.Process(_part(run, "web").pid).memory_info().rss),
            tracebacks=lambda: ends_of_tracebacks((data / "logs" / "web.log").read_text()),
            redis_url=demo.redis.server.url,
            data=data,
            go_on=lambda: _go_on(run),
            let_in=lambda: _let_in(run),
            metrics_token=metrics_token,
            requests_a_route=requests_a_route,
        )
        try:
            _wait_set_up(run, target)
            for name in RESTING:
                demo.tree.take_out(_part(run, name))
            yield target
        finally:
            target.close()
            witness.close()


@contextmanager
def _environment(name: str, value: str) -> Iterator[str]:
    """Of what is started meanwhile."""
    before, os.environ[name] = os.environ.get(name), value
    try:
        yield value
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def ends_of_tracebacks(log: str) -> list[str]:
    return [found[1][:END_MAX] for found in TRACEBACK.finditer(log)]


def _part(run: Run, name: str) -> Process:
    part = next(part for part in run.demo.tree.parts if part.name == name)
    assert isinstance(part, Process)
    return part


def _go_on(run: Run) -> None:
    if run.demo.tree.stopping:
        raise Stopped


def _let_in(run: Run) -> None:
    done = run_program(run.demo.parts.environment, "django", "axes_reset", timeout_s=SET_UP_S)
    if done.returncode:
        raise NotJudged(f"lockouts were not ended: {(done.stderr or done.stdout)[-END_MAX:]}")


def _token_of_new(run: Run, group: str) -> str:
    run.demo.parts.prepare("--group", group, "--partitions", PARTITIONS)
    made: Path = run.demo.options.data / "agent_token"
    token = made.read_text().strip()
    made.unlink()
    return token


def _wait_set_up(run: Run, target: Target) -> None:
    """Until the first tick has made both groups in Redis, which their routes say."""
    good = {group: mutated.good(group, "join") for group in target.tokens}

    def are_set_up() -> bool:
        answers = [target.post(g, "join", good[g], t).status for g, t in target.tokens.items()]
        return answers == [200, 200]

    run.wait(are_set_up, SET_UP_S, f"{API_PREFIX} did not take agents")
    target.requests, target.server_errors = 0, []


def _settled(look: Callable[[], Held]) -> Held:
    before = look()
    for _ in range(SETTLE_TRIES):
        time.sleep(QUIET_S)
        now = look()
        if now == before:
            break
        before = now
    return before
