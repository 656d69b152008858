"""/producers/: create, shown once, revoke; and who may."""

import re

import pytest
from django.test import Client
from redis import Redis
from redis.exceptions import RedisError

from dashboard.agents import rights
from dashboard.agents.producer_token import ProducerToken
from dashboard.models import AuditEntry, Group

ADDRESS = "/producers/"


def test_a_token_is_shown_once_and_appends(visitor: Client, group: Group) -> None:
    sent = {"do": "create", "stream": group.stream, "name": "night", "days": "7"}
    answer = visitor.post(ADDRESS, sent)
    page = answer.content.decode()
    found = re.search(r'<pre class="wrap" id="token">([^<]+)</pre>', page)
    assert found, page
    assert answer["Cache-Control"] == "no-store"
    assert f"evenkeel-producer --stream {group.stream}" in page
    token = ProducerToken.objects.get()
    assert (token.stream, token.name, token.state) == (group.stream, "night", "valid")
    again = visitor.get(ADDRESS).content.decode()
    assert found[1] not in again
    assert f'data-token="{token.pk}"' in again
    assert found[1] not in str(list(AuditEntry.objects.values()))

    stream = f"{{{group.stream}:0}}"
    with Redis.from_url(rights.producers_redis_url(found[1])) as producer:
        producer.xadd(stream, {"k": "v"})
        with pytest.raises(RedisError):
            producer.xrange(stream)
        assert visitor.post(ADDRESS, {"do": "revoke", "token": token.pk}).status_code == 302
        with pytest.raises(RedisError):
            producer.xadd(stream, {"k": "v"})
    token.refresh_from_db()
    assert token.state == "revoked"
    acted = AuditEntry.objects.filter(object=f"{group.stream}/night").order_by("pk")
    assert [e.action for e in acted] == ["create producer token", "revoke producer token"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"do": "create", "stream": "nobodys"}, "no group reads a stream"),
        ({"do": "create", "stream": "a b"}, "a b"),
        ({"do": "create", "name": ""}, "required"),
        ({"do": "create", "days": "0"}, "0"),
    ],
)
def test_what_is_wrong_is_named(
    visitor: Client, group: Group, values: dict[str, str], said: str
) -> None:
    answer = visitor.post(ADDRESS, {"stream": group.stream, "name": "n", **values})
    assert answer.status_code == 200
    page = answer.content.decode()
    assert 'role="alert"' in page or 'class="errors"' in page
    assert said in page
    assert not ProducerToken.objects.exists()
    if said == "no group reads a stream":
        tried = AuditEntry.objects.get(action="create producer token")
        assert (tried.group, tried.object) == ("", "nobodys")
        assert tried.result.startswith("refused: ")


@pytest.mark.parametrize("key", ["999999", "x", ""])
def test_a_token_that_is_not_there(visitor: Client, group: Group, key: str) -> None:
    assert visitor.post(ADDRESS, {"do": "revoke", "token": key}).status_code == 404
