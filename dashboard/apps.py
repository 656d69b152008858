"""The one Django app."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"
    verbose_name = "Evenkeel"

    def ready(self) -> None:
        from dashboard.celery import app
        from dashboard.coordinator import rows
        from dashboard.records import guards, logins

        app.set_default()
        guards.follow_migrations(self)
        logins.connect()
        rows.connect()
