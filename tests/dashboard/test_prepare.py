"""What `up` makes before anything else runs: tables and the group of the demo."""

from argparse import Namespace

import pytest
from pytest_django.fixtures import Settings

from dashboard.actions.groups import Refused
from dashboard.demo.prepare import prepare


def test_no_demo_in_production(settings: Settings) -> None:
    settings.DEVELOPMENT = False
    with pytest.raises(Refused, match="leave EVENKEEL_HOSTS out, or give --no-demo"):
        prepare(Namespace(group="flights"))
