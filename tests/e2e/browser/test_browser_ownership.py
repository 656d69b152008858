"""Ownership over time: the brush by pointer and by keys, what is said under it, and its pages."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import Page

from dashboard.models import Tenure
from dashboard.pages.texts import parse_moment
from tests.e2e.browser.conftest import NewContext
from tests.e2e.browser.stage import Stage, until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

GUTTER, TOP = 48, 14  # of js/timeline.js
COLOURS = """() => {
  const canvas = document.getElementById("timeline"), pen = canvas.getContext("2d");
  const {data} = pen.getImageData(0, 0, canvas.width, canvas.height), found = new Set();
  for (let i = 0; i < data.length; i += 4) found.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
  return [...found];
}"""
HUE = """(n) => {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(`--owner-${n}`).trim();
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",");
}"""


async def opened(stage: Stage, new: NewContext, path: str = "ownership/") -> Page:
    page = await (await new(viewport={"width": 1440, "height": 900})).new_page()
    await page.goto(f"/groups/{stage.group.name}/{path}")
    await page.wait_for_selector("#drawn:not(:empty)")
    return page


async def box_of(page: Page) -> dict[str, float]:
    await page.locator("#timeline").scroll_into_view_if_needed()
    box = await page.locator("#timeline").bounding_box()
    assert box is not None
    return {"x": box["x"] + GUTTER, "y": box["y"] + TOP, "width": box["width"] - GUTTER - 8}


def asked(page: Page) -> dict[str, Any]:
    found = {name: one for name, (one,) in parse_qs(urlsplit(page.url).query).items()}
    moments = {n: parse_moment(found[n]) for n in ("from", "to") if n in found}
    return found | moments


async def shown_ms(page: Page) -> tuple[int, int]:
    canvas = page.locator("#timeline")
    texts = [await canvas.get_attribute(f"data-{name}") for name in ("from", "to")]
    first, last = (int(text or 0) for text in texts)
    return first, last


async def test_every_owner_is_drawn_in_its_colour_also_who_comes_later(
    stage: Stage, logged_in: NewContext
) -> None:
    page = await opened(stage, logged_in)
    hues = {await page.evaluate(HUE, n) for n in range(3)}

    async def all_are_there() -> bool:
        return hues <= set(await page.evaluate(COLOURS))

    await until(all_are_there, "the hues of three members are on the canvas")
    assert "12 partitions." in await page.inner_text("#drawn")
    later = await page.evaluate(HUE, 3)
    assert later not in await page.evaluate(COLOURS)
    await stage.join("d")
    await stage.settled()
    hues.add(later)
    await until(all_are_there, "the picture follows what happens")


async def test_a_click_on_what_happened_opens_the_rebalance(
    stage: Stage, logged_in: NewContext
) -> None:
    rows = stage.group.rebalances.filter(first=None).order_by("at_ms")
    row = await sync_to_async(rows.first)()
    assert row is not None
    page = await opened(
        stage, logged_in, f"ownership/?from={row.at_ms - 1_000}&to={row.at_ms + 1_000}"
    )
    box = await box_of(page)
    await page.mouse.move(box["x"] + box["width"] / 2, box["y"] - 6)
    await page.wait_for_selector("#card:not([hidden])")
    assert row.cause in await page.inner_text("#card")
    await page.mouse.click(box["x"] + box["width"] / 2, box["y"] - 6)
    await page.wait_for_url(f"**/history/{row.incarnation}/{row.target_epoch}/")


async def test_the_brush_zooms_and_the_zoom_is_in_the_address(
    stage: Stage, logged_in: NewContext
) -> None:
    page = await opened(stage, logged_in)
    from_ms, to_ms = await shown_ms(page)
    box, line = await box_of(page), 23
    await page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 2.5 * line)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 5.5 * line, steps=5)
    async with page.expect_response("**/ownership/picture*"):
        await page.mouse.up()
    found = asked(page)
    length = to_ms - from_ms
    assert abs(found["from"] - from_ms - 0.5 * length) < 0.05 * length
    assert abs(found["to"] - found["from"] - 0.25 * length) < 0.05 * length
    first, last = int(found["first"]), int(found["last"])
    assert 0 < first < last < 11

    async def table_follows() -> bool:
        rows = await page.locator("#tenures tbody tr td:first-child").all_inner_texts()
        return bool(rows) and all(first <= int(row) <= last for row in rows)

    await until(table_follows, "the table has the partitions of the picture")
    await page.reload()
    assert await shown_ms(page) == (found["from"], found["to"])
    await page.go_back()
    assert "from" not in asked(page)


async def test_keys_select_zoom_and_move(stage: Stage, logged_in: NewContext) -> None:
    page = await opened(stage, logged_in)
    from_ms, to_ms = await shown_ms(page)
    await page.focus("#timeline")
    for key in ("ArrowLeft", "ArrowLeft", *["Shift+ArrowRight"] * 6):
        await page.keyboard.press(key)
    async with page.expect_response("**/ownership/picture*"):
        await page.keyboard.press("Enter")
    zoomed = asked(page)
    assert abs(zoomed["to"] - zoomed["from"] - (to_ms - from_ms) * 6 / 60) < 20
    async with page.expect_response("**/ownership/picture*"):
        await page.keyboard.press("-")
    wider = asked(page)
    assert abs(wider["to"] - wider["from"] - 2 * (zoomed["to"] - zoomed["from"])) < 20
    async with page.expect_response("**/ownership/picture*"):
        await page.keyboard.press("PageUp")
    assert asked(page)["to"] < wider["to"]


async def test_who_had_it_is_said_and_a_click_opens_the_partition(
    stage: Stage, logged_in: NewContext
) -> None:
    page = await opened(stage, logged_in)
    box = await box_of(page)
    x, y = box["x"] + box["width"] - 2, box["y"] + 2
    await page.mouse.move(x, y)
    await page.wait_for_selector("#card:not([hidden])")

    async def says_who() -> bool:
        return "FENCE" in (await page.inner_text("#card")).upper()

    await until(says_who, "the card says who")
    card = await page.inner_text("#card")
    rows = Tenure.objects.filter(group=stage.group, number=0)
    row = await sync_to_async(rows.latest)("fence")
    assert row.member_id in card
    assert f"{row.fence >> 32}.{row.fence % 2**32}" in card
    assert "still" in card
    await page.mouse.click(x, y)
    await page.wait_for_url("**/partitions/0/?*")
    assert await page.locator("#owner-at").count() == 1
    await page.wait_for_selector("#drawn:not(:empty)")
    assert "1 partition." in await page.inner_text("#drawn")


async def test_a_member_has_its_life(stage: Stage, logged_in: NewContext) -> None:
    page = await opened(stage, logged_in, "members/a/")
    box = await box_of(page)
    await page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 2)
    await page.wait_for_selector("#card:not([hidden])")
    card = await page.inner_text("#card")
    assert "IN THE GROUP" in card.upper()
    assert "yes" in card
