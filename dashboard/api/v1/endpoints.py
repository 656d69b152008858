"""The API as one object: its routers, how errors are told, and its OpenAPI document."""

import logging
from collections.abc import Callable, Collection
from functools import partial, wraps
from typing import Any

from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.parser import Parser
from ninja.security import HttpBearer

import assignment
from assignment.bounds import not_storable
from assignment.errors import Damaged, EvenkeelError, InvalidInput
from dashboard import strict_json
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Denied
from dashboard.api.v1 import (
    answers,
    approval_rules,
    commands,
    dead_letters,
    deciding,
    events,
    history,
    idempotency,
    offsets,
    pauses,
    reads,
    scale_downs,
    tokens,
)
from dashboard.api.v1.reading import router
from dashboard.live.connection import StoreUnavailable
from dashboard.records.api_answer import KEY_MAX
from dashboard.web.problems import TYPE, answer

LOOKING = ("GET", "HEAD")
JSON = "application/json"
ERRORS_SHOWN = 20
OF_ALL = {
    400: "The request cannot be read.",
    401: "No valid token.",
    403: "The token, or its person, may not do this.",
    404: "It is not there, or hidden from you.",
    422: "A value is wrong, or a name is not known; `errors` says where.",
    429: "Too many requests of this second.",
    503: "Redis or the database does not answer now; try again.",
}
OF_COMMANDS = {
    409: "As things stand it is refused; nothing was changed.",
    413: "The body is too large.",
    415: "The body is not application/json.",
}
KEY_PARAMETER = {
    "in": "header",
    "name": idempotency.HEADER,
    "required": False,
    "schema": {"type": "string", "pattern": f"^[!-~]{{1,{KEY_MAX}}}$"},
    "description": "The same key with the same request is answered as before, for 24 hours.",
}
ABOUT = (
    "The dashboard for programs: what pages show and do, by the same rules. Make a token on"
    " /api-tokens/ and send it as `Authorization: Bearer <token>`. Errors are problem+json."
)

log = logging.getLogger(__name__)


class _Strict(Parser):
    """Names that are there twice and texts that no database holds are mistakes."""

    def parse_body(self, request: HttpRequest) -> Any:
        try:
            return strict_json.read("the body", request.body)
        except InvalidInput as error:
            raise HttpError(400, str(error)) from error


class PersonToken(HttpBearer):
    """Said in the document; who asks was looked at before, at the door."""

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        return vars(request).get("api")


class Api(NinjaAPI):
    _document: OpenAPISchema | None = None

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: Any = None
    ) -> OpenAPISchema:
        """Made once: anybody may ask for it, and it says the same while the process runs."""
        if self._document is None:
            self._document = self._made(path_prefix, path_params)
        return self._document

    def _made(self, path_prefix: str | None, path_params: Any) -> OpenAPISchema:
        found = super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
        schema = answers.Problem.model_json_schema()
        found["components"]["schemas"]["Problem"] = schema
        for path in found["paths"].values():
            for method, operation in path.items():
                _complete(operation, is_command=method.upper() not in LOOKING)
        return found


def _complete(operation: dict[str, Any], *, is_command: bool) -> None:
    """Ninja's document knows no errors that handlers answer."""
    told = OF_ALL | (OF_COMMANDS if is_command else {})
    content = {TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, why in told.items():
        operation["responses"][status] = {"description": why, "content": content}
    if is_command:
        operation["parameters"].append(KEY_PARAMETER)


api = Api(
    title="Evenkeel",
    version=assignment.VERSION,
    description=ABOUT,
    urls_namespace="v1",
    docs_url=None,
    auth=PersonToken(),
    parser=_Strict(),
)


# --- before the operation -------------------------------------------------------------------------


def guarded(run: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Of each operation: what Ninja lets pass is refused, commands are done once a key."""
    known = _query_names(run.__self__)  # type: ignore[attr-defined]

    @wraps(run)
    def answered(request: HttpRequest, **path: Any) -> HttpResponse:
        if why := _misread(request, known):
            return answer(422, why)
        if request.method in LOOKING:
            return run(request, **path)
        if request.body and request.content_type != JSON:
            return answer(415, f"the body is {(request.content_type or '')[:80]!r}, not {JSON}")
        return idempotency.once(request, partial(run, request, **path))

    return answered


def _query_names(operation: Any) -> frozenset[str]:
    models = [m for m in operation.models if m.__ninja_param_source__ == "query"]
    return frozenset(name for model in models for name in model.__ninja_flatten_map__)


def _misread(request: HttpRequest, known: Collection[str]) -> str:
    """Ninja passes over names that it does not know, and takes the last of one that comes twice."""
    for name, values in request.GET.lists():
        if name not in known:
            return f"there is no parameter {name[:80]!r}"
        if len(values) > 1:
            return f"parameter {name!r} is there {len(values)} times"
        if not_storable(values) is not None:
            return f"parameter {name!r} has a character that is in no text here"
    return ""


api.add_decorator(guarded, mode="view")
# Each adds its own to it.
_PARTS = (reads, history, events, dead_letters, commands, deciding, offsets, pauses, scale_downs)
assert all((*_PARTS, tokens, approval_rules))
api.add_router("", router)


# --- errors ---------------------------------------------------------------------------------------

STATUS: dict[type[Exception], int] = {
    InvalidInput: 422,
    StoreUnavailable: 503,
    Damaged: 503,
    Refused: 409,
    EvenkeelError: 409,
    Denied: 403,
    Http404: 404,
}


def _told(status: int, request: HttpRequest, error: Any) -> HttpResponse:
    return answer(status, str(error))


for kind, code in STATUS.items():
    api.add_exception_handler(kind, partial(_told, code))


@api.exception_handler(HttpError)
def _http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    cause = error.__cause__  # Ninja's own words say nothing of what was wrong
    return answer(error.status_code, str(cause if isinstance(cause, HttpError) else error))


@api.exception_handler(DatabaseError)
def _database_away(request: HttpRequest, error: DatabaseError) -> HttpResponse:
    log.exception("%s %s not answered", request.method, request.path, exc_info=error)
    return answer(503, "the database does not answer now")


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    found = [
        {"where": [str(part) for part in one["loc"]], "why": one["msg"]} for one in error.errors
    ]
    first = found[0]
    detail = f"{'.'.join(first['where'])}: {first['why']}"
    return answer(422, detail, errors=found[:ERRORS_SHOWN])
