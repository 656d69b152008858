"""Addresses of people's pages. Agents' routes are dispatched before Django, in asgi.py."""

from django.urls import include, path

from dashboard.api import health, metrics

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("", include("dashboard.pages.urls")),
]
