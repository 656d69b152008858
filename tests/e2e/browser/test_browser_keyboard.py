"""Deeds by keyboard alone: no mouse, and at each step it is seen where one is."""

import re
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import Page, TimeoutError

from dashboard.actions import groups
from dashboard.models import AuditSource
from dashboard.records.audit import By
from tests.e2e.browser.conftest import NewContext
from tests.e2e.browser.stage import Stage, until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

STEPS_MAX = 120
# Where the keyboard is: in view, and outlined by the page's own rule.
FOCUS = """(wanted) => { const at = document.activeElement, {outlineStyle, outlineWidth} =
    getComputedStyle(at), box = at.getBoundingClientRect();
  return {there: at.matches(wanted), page: at === document.body, what: at.outerHTML.slice(0, 160),
    seen: at.matches(":focus-visible") && outlineStyle === "solid"
      && parseFloat(outlineWidth) >= 2 && box.width > 2 && box.height > 2
      && box.left < innerWidth && box.right > 0 && box.top < innerHeight && box.bottom > 0}; }"""


async def focus(page: Page, wanted: str) -> dict[str, Any]:
    found: dict[str, Any] = await page.evaluate(FOCUS, wanted)
    return found


async def tab_to(page: Page, wanted: str) -> None:
    """By Tab, past whatever comes before."""
    for _ in range(STEPS_MAX):
        await page.keyboard.press("Tab")
        found = await focus(page, wanted)
        assert found["page"] or found["seen"], found["what"]
        if found["there"]:
            return
    raise AssertionError(f"{wanted} is not reached by {STEPS_MAX} Tabs")


async def press(page: Page, wanted: str, path: str) -> None:
    await tab_to(page, wanted)
    await page.keyboard.press("Enter")
    try:
        await page.wait_for_url(re.compile(path))
    except TimeoutError as error:
        shown = await page.locator("main").inner_text()
        raise AssertionError(f"{wanted} led nowhere; the page says:\n{shown}") from error


async def rebalance(page: Page) -> None:
    await press(page, '#actions a[href$="/rebalance/"]', "/rebalance/$")
    await tab_to(page, "[name=strategy]")
    for _ in range(20):
        if (await focus(page, '[value="averagely"]'))["there"]:
            break
        await page.keyboard.press("ArrowDown")
    await tab_to(page, "#previews ~ * [name=reason], [name=reason]")
    await page.keyboard.type("contiguous blocks")
    await press(page, "#run", "/(plans|history)/")


async def scale_down(page: Page) -> None:
    await press(page, '#actions a[href$="/scale-down/"]', "/scale-down/$")
    await tab_to(page, "#percent")
    await page.keyboard.press("ControlOrMeta+a")
    await page.keyboard.type("66")
    await page.wait_for_selector('.reading[data-stay="2"][data-leave="1"]')
    await tab_to(page, "[name=reason]")
    await page.keyboard.type("fewer at night")
    await press(page, "#tell", r"/scale-down/\d+/$")


async def test_a_rebalance_and_a_scale_down_by_keyboard_alone(
    stage: Stage, logged_in: NewContext
) -> None:
    page = await (await logged_in()).new_page()
    await page.goto(f"/groups/{stage.group.name}/")
    await rebalance(page)

    async def is_done() -> bool:
        return await page.locator("main").get_by_text("done", exact=True).count() > 0

    await until(is_done, "the page says that it is done")
    await stage.settled()
    stage.learns = True
    by = By("ann", AuditSource.PAGE)
    await sync_to_async(groups.change_settings)(stage.group, {"stateful": True}, by)
    await page.goto(f"/groups/{stage.group.name}/")
    await scale_down(page)
    await page.wait_for_selector('[data-state="done"]')
    await stage.settled()  # done is a scale-down when who leaves is out: others take it up then
    assert sorted(len(agent.held) for agent in stage.agents) == [6, 6]
