"""Grants of roles, as rows. Read through rights.py, changed through actions/users.py."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from dashboard.actions.roles import STAGED, Effect, Grant, Role


class RoleGrant(models.Model):
    """A role of a person in the groups whose names a pattern fits (dashboard.md section 5)."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="role_grants"
    )
    role = models.CharField(max_length=10, choices=[(role, role.capitalize()) for role in Role])
    pattern = models.CharField(max_length=100)
    effect = models.CharField(max_length=5, choices=[(e, e.capitalize()) for e in Effect])
    made_at = models.DateTimeField(auto_now_add=True)
    made_by = models.CharField(max_length=150)
    by_provider = models.BooleanField(default=False)  # by groups there, anew at each log in

    class Meta:
        ordering = ("pattern", "role", "effect", "id")
        constraints = (
            models.UniqueConstraint(
                fields=("user", "role", "pattern", "effect", "by_provider"), name="one_grant"
            ),
            models.CheckConstraint(
                condition=~Q(effect="stage") | Q(role__in=sorted(STAGED)),
                name="only_changing_roles_are_staged",
            ),
        )

    def __str__(self) -> str:
        return f"{self.effect} {self.role} in {self.pattern}"  # also of one that cannot be read

    @property
    def value(self) -> Grant:
        """Raises InvalidInput, ValueError: the row is not of this program."""
        return Grant(role=Role(self.role), pattern=self.pattern, effect=Effect(self.effect))
