"""Django's admin: users, and a look at the rows. History and audit are not editable there."""

from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from dashboard import models

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Model]
else:
    ModelAdmin = admin.ModelAdmin


class ReadOnly(ModelAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


for model in (
    models.Group,
    models.MemberRecord,
    models.Rebalance,
    models.Tenure,
    models.HistoryGap,
    models.ScaleDown,
    models.AuditEntry,
):
    admin.site.register(model, ReadOnly)
