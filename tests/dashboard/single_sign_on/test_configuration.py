"""What is configured: checked when the process starts, and named when it is wrong."""

import json
import re

import pytest

from assignment.errors import InvalidInput
from dashboard.actions.roles import Grant
from dashboard.single_sign_on.configuration import roles_of
from tests.dashboard.single_sign_on.flow import configuration
from tests.fakes.openid import SECRET


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ('{"ops": "captain"}', "group 'ops': there is no role 'captain': viewer, operator"),
        ('{"ops": "permit operator"}', "'permit operator' is not of the form"),
        ('{"ops": "operator in [x]"}', "pattern '[x]'"),
        ('{"ops": "stage viewer"}', "role viewer cannot be staged"),
        ('{"ops": 7}', "what group 'ops' gives is not of the form"),
        ('{"ops": []}', "what group 'ops' gives is not of the form"),
        ('{"ops": "viewer", "ops": "admin"}', "'ops' is there twice"),
        ("{}", "is no JSON of the form"),
        ("ops=admin", "is not JSON"),
        (json.dumps({f"g{n}": "viewer" for n in range(201)}), "more than 200 roles"),
    ],
)
def test_roles_that_cannot_be_read_are_named(roles: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)) as error:
        roles_of("EVENKEEL_SSO_ROLES", roles)
    assert said == "'ops' is there twice" or str(error.value).startswith("EVENKEEL_SSO_ROLES")


@pytest.mark.parametrize(
    "text", ["deny viewer in secret-*", "allow admin in *", "stage operator in a"]
)
def test_a_grant_is_read_as_it_is_shown(text: str) -> None:
    assert str(Grant.read(text)) == text


@pytest.mark.parametrize(
    ("issuer", "development", "is_good"),
    [
        ("https://id.example.org", False, True),
        ("https://id.example.org/realms/x/", False, True),
        ("http://id.example.org", True, False),
        ("http://127.0.0.1:8080/x", True, True),
        ("http://localhost:8080", False, False),
        ("https://", False, False),
        ("https://a@id.example.org", False, False),
        ("https://id.example.org/?x=1", False, False),
        ("https://id.example.org:port", False, False),
        ("https://" + "x" * 200, False, False),
        ("id.example.org", True, False),
    ],
)
def test_an_issuer_is_reached_by_https_or_on_this_machine(
    issuer: str, development: bool, is_good: bool
) -> None:
    if is_good:
        configuration(issuer, development=development)
    else:
        with pytest.raises(InvalidInput, match="EVENKEEL_SSO_ISSUER"):
            configuration(issuer, development=development)


def test_the_secret_is_never_shown() -> None:
    assert SECRET not in repr(configuration("https://id.example.org"))
