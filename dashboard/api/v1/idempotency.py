"""A command that comes again under the same Idempotency-Key is answered as before, not done again.

What was done is kept for a day under the key of its person. What was refused changed nothing: its
key is free again. Of a command that ended nobody knows how, as when this process was killed, it is
only said that it began. Secrets are never kept: a repeated answer has null in their place.
"""

import hashlib
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from dashboard.api.v1 import doors
from dashboard.records.api_answer import KEY_MAX, ApiAnswer
from dashboard.web.problems import answer

HEADER, REPEATED = "Idempotency-Key", "Idempotent-Replayed"
KEY = re.compile(rf"[!-~]{{1,{KEY_MAX}}}")
KEPT = timedelta(hours=24)
KEYS_MAX = 1_000  # of one person within that time
ANSWER_MAX = 2**16  # characters that are kept of one
SECRET = "secret"
DONE = range(200, 300)

Answers = Callable[[], HttpResponse]


def once(request: HttpRequest, run: Answers) -> HttpResponse:
    """The answer of `run`, or the one that it gave under that key before."""
    key = request.headers.get(HEADER)
    if key is None:
        return run()
    if not KEY.fullmatch(key):
        return answer(422, f"{HEADER} is not 1 to {KEY_MAX} printable ASCII characters")
    person, fingerprint = doors.person_of(request), _fingerprint(request)
    ApiAnswer.objects.filter(created_at__lt=timezone.now() - KEPT).delete()
    if known := ApiAnswer.objects.filter(user_id=person, key=key).first():
        return _again(known, fingerprint)
    if ApiAnswer.objects.filter(user_id=person).count() >= KEYS_MAX:
        return answer(429, f"you have used {KEYS_MAX} idempotency keys within 24 hours")
    try:
        with transaction.atomic():
            row = ApiAnswer.objects.create(user_id=person, key=key, fingerprint=fingerprint)
    except IntegrityError:  # another one with this key came at the same moment
        return _again(ApiAnswer.objects.filter(user_id=person, key=key).first(), fingerprint)
    response = run()
    _keep(row, response)
    return response


def _fingerprint(request: HttpRequest) -> str:
    asked = f"{request.method} {request.get_full_path()}\n".encode() + request.body
    return hashlib.sha256(asked).hexdigest()


def _again(row: ApiAnswer | None, fingerprint: str) -> HttpResponse:
    if row is None:
        return answer(409, f"another command of this {HEADER} was just refused: send it again")
    if row.fingerprint != fingerprint:
        return answer(422, f"this {HEADER} came with another request before: use a new one")
    if row.status is None or not row.body:
        why = "began and did not end yet, or nobody knows how" if row.status is None else "was done"
        return answer(409, f"the command of this {HEADER} {why}: look what became of it")
    headers = {REPEATED: "true"}
    return HttpResponse(
        row.body, status=row.status, content_type="application/json", headers=headers
    )


def _keep(row: ApiAnswer, response: HttpResponse) -> None:
    if response.status_code not in DONE:
        row.delete()
        return
    text = _without_secret(response.content.decode())
    row.status, row.body = response.status_code, text if len(text) <= ANSWER_MAX else ""
    row.save(update_fields=["status", "body"])


def _without_secret(text: str) -> str:
    found: Any = json.loads(text)
    if isinstance(found, dict) and SECRET in found:
        return json.dumps({**found, SECRET: None})
    return text
