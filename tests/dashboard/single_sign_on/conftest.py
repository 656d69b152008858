"""The provider, as it is configured for the tests of this folder."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from dashboard.single_sign_on import asking
from dashboard.single_sign_on.people import KnownElsewhere
from tests.dashboard.single_sign_on.flow import configuration
from tests.fakes.openid import OpenIdProvider, openid_provider


@pytest.fixture
def provider(settings: Settings) -> Iterator[OpenIdProvider]:
    asking.documents.forget()
    with openid_provider() as made:
        settings.SINGLE_SIGN_ON = configuration(made.issuer)
        backend = f"{KnownElsewhere.__module__}.{KnownElsewhere.__name__}"
        settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, backend]
        yield made
    asking.documents.forget()
