"""How many failed log ins lock out: of a pair of user name and address, of either alone.

The pair alone is no limit for who has many addresses or tries many names.
"""

from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest


def address(request: HttpRequest) -> str | None:
    """As the connection has it, or the proxy (asgi.py); no header is read here."""
    return request.META.get("REMOTE_ADDR") or None


class LoginLimits(AxesDatabaseHandler):  # type: ignore[misc]
    """Its querysets are in the order of settings.AXES_LOCKOUT_PARAMETERS, as the limits are."""

    def get_failures(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """In units of the first limit: which is reached when any of them is."""
        unit = settings.LOGIN_LIMITS[0]
        found = self.get_user_attempts(request, credentials)
        return max(
            (rows.aggregate(n=Sum("failures_since_start"))["n"] or 0) * unit // limit
            for rows, limit in zip(found, settings.LOGIN_LIMITS, strict=True)
        )

    def reset_user_attempts(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """Of the pair that logged in: whoever has one account may not clear an address by it."""
        pair, *_ = self.filter_user_attempts(request, credentials)
        return int(pair.delete()[0])
