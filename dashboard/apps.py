"""The one Django app."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"
    verbose_name = "Evenkeel"

    def ready(self) -> None:
        from dashboard.celery import app

        app.set_default()
