"""The charts of the Balance tab: steps, one time axis for all, points that open their rebalance."""

from typing import Any

import pytest
from playwright.async_api import Page

from tests.e2e.browser.conftest import NewContext
from tests.e2e.browser.stage import Stage, until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

OVER_TIME = ("chart-rebalances", "chart-flow")
RANGES = """(ids) => ids.map((id) => document.getElementById(id)._fullLayout.xaxis.range.map(
  (at) => Date.parse(`${at.replace(' ', 'T')}${at.endsWith('Z') ? '' : 'Z'}`)))"""
FORMS = """() => document.getElementById('chart-rebalances').data
  .filter((trace) => trace.mode === 'lines').map((trace) => trace.line.shape)"""
MARKS = "(ids) => ids.map((id) => document.getElementById(id).layout.shapes.length)"
# Where the first rebalance's point in the flow is on the screen.
POINT = """() => {
  const chart = document.getElementById('chart-flow'), {xaxis, yaxis3} = chart._fullLayout;
  const {x, y, customdata} = chart.data.at(-1);
  const box = chart.querySelector('.main-svg').getBoundingClientRect();
  return [box.x + xaxis._offset + xaxis.d2p(x[0]), box.y + yaxis3._offset + yaxis3.d2p(y[0]),
    customdata[0]];
}"""


async def opened(stage: Stage, new: NewContext) -> Page:
    page = await (await new(viewport={"width": 1440, "height": 900})).new_page()
    await page.goto(f"/groups/{stage.group.name}/balance/")
    await page.wait_for_function("document.querySelectorAll('[data-linked]').length === 2")
    return page


async def ranges(page: Page) -> list[Any]:
    found: list[Any] = await page.evaluate(RANGES, OVER_TIME)
    return found


async def test_a_zoom_in_one_chart_is_the_zoom_of_all(stage: Stage, logged_in: NewContext) -> None:
    page = await opened(stage, logged_in)
    assert await page.evaluate(FORMS) == ["hv"]
    first, second = await page.evaluate(MARKS, OVER_TIME)
    assert first == second > 0
    whole = await ranges(page)
    assert whole[0] == whole[1]
    box = await page.locator("#chart-flow .nsewdrag").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    await page.mouse.move(box["x"] + box["width"] * 0.4, y)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=5)
    async with page.expect_response("**/charts.json*"):  # what comes meanwhile does not end a drag
        await page.mouse.move(box["x"] + box["width"] * 0.8, y, steps=5)
    await page.mouse.up()

    async def both_are_zoomed() -> bool:
        one, other = await ranges(page)
        return bool(one == other and one[1] - one[0] < 0.6 * (whole[0][1] - whole[0][0]))

    await until(both_are_zoomed, "both charts show what was chosen in one")
    await stage.join("d")
    await stage.settled()

    async def has_the_new_one() -> bool:
        return bool((await page.evaluate(MARKS, OVER_TIME))[0] > first)

    zoomed = await ranges(page)
    await until(has_the_new_one, "another rebalance came")
    assert await ranges(page) == zoomed
    await page.mouse.dblclick(box["x"] + box["width"] / 2, y)

    async def all_is_shown() -> bool:
        one, other = await ranges(page)
        return bool(one == other and one[1] - one[0] >= whole[0][1] - whole[0][0])

    await until(all_is_shown, "a double click shows all again")


async def test_a_click_on_a_point_opens_its_rebalance(stage: Stage, logged_in: NewContext) -> None:
    page = await opened(stage, logged_in)
    x, y, end = await page.evaluate(POINT)
    await page.mouse.move(x, y)
    await page.wait_for_selector("#chart-flow.over")
    await page.mouse.click(x, y)
    await page.wait_for_url(f"**/groups/{stage.group.name}/history/{end}")
