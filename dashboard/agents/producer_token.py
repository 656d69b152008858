"""The row of a producer's token; a model of this app, by way of dashboard.models."""

from django.db import models

from assignment.types import NAME_MAX
from dashboard.agents.issued import IssuedToken


class ProducerToken(IssuedToken):
    """Who may append to a stream: a user of Redis."""

    stream = models.CharField(max_length=NAME_MAX)

    def __str__(self) -> str:
        return f"{self.name} of {self.stream}"
