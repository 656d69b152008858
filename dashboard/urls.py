"""Addresses of people's pages. Agents' routes are dispatched before Django, in asgi.py."""

from django.urls import include, path

from dashboard.api import health, metrics
from dashboard.api.v1.endpoints import api
from dashboard.web.problems import API

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path(API.lstrip("/"), api.urls),
    path("", include("dashboard.pages.urls")),
]
