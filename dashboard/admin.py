"""Django's admin: users, and a look at the rows. History and audit are not editable there."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from dashboard import models
from dashboard.evaluation.stored import Evaluation


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    def _never(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    has_add_permission = has_change_permission = has_delete_permission = _never


admin.site.register([models.Group, models.MemberRecord, models.Rebalance, models.Tenure], ReadOnly)
admin.site.register([models.HistoryGap, models.ScaleDown, models.AuditEntry], ReadOnly)
admin.site.register(Evaluation, ReadOnly)
