"""The row of a person's token for the API. Django finds it through dashboard.models."""

from django.conf import settings
from django.db import models

from dashboard.actions.roles import Action
from dashboard.agents.issued import IssuedToken


class PersonToken(IssuedToken):
    """Speaks for its person, for what its scopes name and no more than the person may.

    `scopes`: keys of actions; one that this program does not know opens nothing.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    scopes = models.JSONField()
    last_used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.user.get_username()}/{self.name}"

    @property
    def actions(self) -> frozenset[Action]:
        return frozenset(action for action in Action if action.key in self.scopes)
