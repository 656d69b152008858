"""Each kind of page as axe-core judges it, in both themes: nothing serious, nothing critical."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from axe_playwright_python.base import AXE_SCRIPT
from django.contrib.auth.models import User
from playwright.async_api import Page

from dashboard.actions import drafting, plans
from dashboard.models import AuditSource, Group
from dashboard.records.audit import By
from tests.e2e.browser.conftest import NewContext
from tests.e2e.browser.stage import Stage
from tests.e2e.browser.test_browser_pages import every_page

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

GRAVE = ("serious", "critical")
ALL = {"resultTypes": ["violations"]}
COLOURS = {**ALL, "runOnly": ["color-contrast"]}


def proposed(group: Group) -> str:
    draft = drafting.rebalance(group, "averagely", None)
    plan = plans.propose(group, draft, By("sam", AuditSource.PAGE, "contiguous"))
    return f"/groups/{group.name}/plans/{plan.pk}/"


JUDGED = "(how) => axe.run(document, how).then(({violations}) => violations)"


async def found(page: Page, theme: str, how: dict[str, Any]) -> list[str]:
    """What is grave of a page that axe is in."""
    await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    return [
        f"{page.url} {theme} {rule['id']}: {node['html'][:300]} {node['failureSummary'][:300]}"
        for rule in await page.evaluate(JUDGED, how)
        for node in rule["nodes"][:3]
        if rule["impact"] in GRAVE
    ]


async def test_no_page_keeps_anybody_out(stage: Stage, logged_in: NewContext) -> None:
    page = await (
        await logged_in(color_scheme="light", viewport={"width": 1280, "height": 800})
    ).new_page()
    user = await User.objects.aget(username="ann")
    some = ["status", "evaluations", "users", f"users/{user.pk}", "producers", "password"]
    plan = await sync_to_async(proposed)(stage.group)
    of_a_kind = [path for path in every_page(stage.group) if "?show=" not in path]
    findings: list[str] = []
    for path in [*of_a_kind, plan, *(f"/{one}/" for one in some)]:
        answer = await page.goto(path)
        assert answer and answer.ok, path
        await page.evaluate(AXE_SCRIPT)
        findings += await found(page, "light", ALL)
        findings += await found(page, "dark", COLOURS)
    assert not findings, "\n".join(findings)
