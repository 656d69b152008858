"""What needs attention, acknowledged in a browser by keys alone; and the palette's keys."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import Page

from dashboard import coordinator
from dashboard.models import Group, Occurrence
from tests.e2e.browser.conftest import NewContext
from tests.e2e.browser.stage import Stage, until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAINTED = """(canvas) => { const {width, height} = canvas;
  const data = canvas.getContext("2d").getImageData(0, height >> 1, width, 1).data;
  const at = (x) => data.slice(4 * x, 4 * x + 3).join();
  return new Set(Array.from({length: width}, (_, x) => at(x))).size; }"""


async def page_of(new: NewContext, **options: Any) -> Page:
    return await (await new(**options)).new_page()


async def press_until_focused(page: Page, selector: str) -> None:
    for _ in range(60):
        await page.keyboard.press("Tab")
        if await page.locator(f"{selector}:focus").count():
            return
    raise AssertionError(f"{selector} is not reached by Tab")


async def test_an_alert_is_acknowledged_by_keys_and_shown_quietly(
    group: Group, logged_in: NewContext
) -> None:
    row = await Occurrence.objects.acreate(
        group=group, rule="lagging", why="w", began_at_ms=1, seen_at_ms=2, raised_at_ms=2
    )
    page = await page_of(logged_in)
    await page.goto("/")
    assert (await page.title()).startswith("(1) ")
    await press_until_focused(page, f"a[href$='#occurrence-{row.pk}']")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/groups/{group.name}/attention/**")
    await press_until_focused(page, f"#note-{row.pk}")
    await page.keyboard.type("adding two members")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(f"#occurrence-{row.pk}.quiet")
    assert "ann" in await page.inner_text(f"#occurrence-{row.pk}")
    assert "adding two members" in await page.inner_text(f"#occurrence-{row.pk}")
    assert not (await page.title()).startswith("(")
    await row.arefresh_from_db()
    assert row.acknowledged_by == "ann"


async def test_the_title_follows_while_the_page_is_open(
    group: Group, logged_in: NewContext
) -> None:
    """Also what a page of the group itself says of it."""
    page = await page_of(logged_in)
    await page.clock.install()
    await page.goto(f"/groups/{group.name}/members/")
    assert not (await page.title()).startswith("(")
    row = await Occurrence.objects.acreate(
        group=group, rule="lagging", why="w", began_at_ms=1, seen_at_ms=2, raised_at_ms=2
    )

    async def title_is(beginning: str) -> bool:
        await page.clock.run_for(2_000)  # a request has 8 s of this clock
        return (await page.title()).startswith(beginning)

    await until(lambda: title_is(f"(1) {group.name}"), "the title tells of one")
    assert await page.locator("[data-attention] b").inner_text() == "1"
    await page.wait_for_selector("#attention_note a:has-text('Acknowledge')")
    await Occurrence.objects.filter(pk=row.pk).aupdate(ended_at_ms=3)
    await until(lambda: title_is(group.name), "the title tells of none")


async def test_the_overview_draws_each_group_in_its_owners_colours(
    stage: Stage, logged_in: NewContext
) -> None:
    await sync_to_async(coordinator.sample)()
    page = await page_of(logged_in)
    await page.goto("/")
    strip = page.locator(f"article[data-group='{stage.group.name}'] canvas")
    assert len({*(await strip.get_attribute("data-cells") or "")}) == 3
    assert await strip.evaluate(PAINTED) == 3


async def test_the_palette_goes_to_a_group_by_keys(group: Group, logged_in: NewContext) -> None:
    page = await page_of(logged_in)
    await page.goto("/status/")
    await page.keyboard.press("Control+k")
    box = page.locator("#palette input")
    await box.wait_for(state="visible")
    await page.keyboard.type(f"{group.name} hist")
    await page.wait_for_selector("#palette [role=option]:has-text('History')")
    chosen = await box.get_attribute("aria-activedescendant")
    assert await page.locator(f"#{chosen}").get_attribute("aria-selected") == "true"
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/groups/{group.name}/history/")


async def test_keys_are_told_and_a_slash_searches_here(group: Group, logged_in: NewContext) -> None:
    page = await page_of(logged_in)
    await page.goto("/groups/")
    await page.keyboard.press("Control+k")
    await page.wait_for_selector("#palette[open]")
    await page.keyboard.press("Escape")
    await page.wait_for_selector("#palette", state="hidden")
    await page.keyboard.press("?")
    await page.wait_for_selector("#keys[open]")
    await page.keyboard.press("Escape")
    await page.wait_for_selector("#keys", state="hidden")
    await page.keyboard.press("/")
    assert await page.locator("main input[name=q]:focus").count() == 1
    await page.keyboard.type("?/")
    assert await page.locator("main input[name=q]").input_value() == "?/"
    assert not await page.locator("dialog[open]").count()
