"""What an agent is answered, and what it is counted as."""

import logging

from django.db import DatabaseError

from assignment import wire
from assignment.errors import Damaged, InvalidInput
from dashboard.agents import messages
from dashboard.agents.requests import Problem, Scope, as_answer, as_json, encode, too_large
from dashboard.live.batch import NotInTime
from dashboard.live.connection import StoreUnavailable
from dashboard.web.counts import counts
from dashboard.web.heads import Answer
from dashboard.web.visitors import refused

GROUP = "evenkeel.group"  # in the scope: whom the token speaks for, if it is valid
NOT_IN_TIME = "Not answered in time"
# What a heartbeat that is not answered with a wire.Status is counted as.
REFUSALS = {401: "unauthorized", 403: "forbidden", 429: "limited", 503: "unavailable"}
INVALID = "invalid"
log = logging.getLogger(__name__)


def replied(scope: Scope, reply: wire.Reply) -> Answer:
    _count(scope, reply.status)
    return as_json(encode(reply))


def refusal(scope: Scope, error: Exception) -> Answer | Exception:
    """The error itself where it is none that an agent could be told."""
    match error:
        case Problem():
            problem = error
        case InvalidInput():
            problem = _invalid(error)
        case Damaged():
            log.error("%s: %s", scope["path"], error)
            why = "what Redis has of the group cannot be used; run manage.py repair on it"
            problem = Problem(503, "Group damaged", why)
        case NotInTime():
            problem = Problem(503, NOT_IN_TIME, f"{error}; try again")
        case StoreUnavailable():
            problem = Problem(503, "Redis is away", str(error))
        case DatabaseError():
            log.error("token not checked", exc_info=error)
            why = "tokens cannot be checked now; try again"
            problem = Problem(503, "Database is away", why)
        case _:
            return error
    if problem.status == 401:
        refused(scope)
    _count(scope, REFUSALS.get(problem.status, INVALID))
    return as_answer(problem)


def _invalid(error: InvalidInput) -> Problem:
    if isinstance(error, messages.TooLarge):
        return too_large(str(error))
    title = "Malformed JSON" if isinstance(error, messages.Malformed) else "Invalid message"
    return Problem(400, title, str(error))


def _count(scope: Scope, result: str) -> None:
    if scope["path"].endswith("/heartbeat"):
        counts.heartbeat(scope[GROUP], result)
