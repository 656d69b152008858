"""What somebody sees who never reloads."""

import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from playwright.async_api import Page, WebSocketRoute

from dashboard.live import connection
from dashboard.live.cells import PARTITION_STATES as STATES
from tests.e2e.browser.conftest import NewContext
from tests.e2e.browser.stage import Stage, until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ROWS = """() => Object.fromEntries([...document.querySelectorAll('#ownership tbody tr')].map(
  (row) => [row.dataset.partition, [row.dataset.owner, row.dataset.fence, row.dataset.state]]))"""
LEGEND = """() => Object.fromEntries([...document.querySelectorAll('#legend li')].map(
  (item) => [item.dataset.member, Number(item.querySelector('b').textContent)]))"""
POINTS = """() => document.getElementById('chart-rebalances').data
  .filter((trace) => ['balance degree', 'stickiness'].includes(trace.name))
  .map((trace) => trace.y.filter((value) => value !== null).length)"""
NOT_RELOADED = "window.openedOnce = true"


async def opened(new: NewContext, path: str, **options: Any) -> Page:
    context = await new(**options)
    page = await context.new_page()
    await page.goto(path)
    await light_is(page, "live")
    await page.evaluate(NOT_RELOADED)
    return page


async def light_is(page: Page, word: str) -> None:
    async def shown() -> bool:
        return await page.get_attribute("#light", "data-light") == word

    await until(shown, f"the light says {word}")


async def assert_not_reloaded(page: Page) -> None:
    assert await page.evaluate("window.openedOnce") is True


async def snapshot_rows(page: Page) -> dict[str, list[str]]:
    """The server's snapshot in the table's form."""
    url = await page.get_attribute("#group", "data-snapshot")
    assert url is not None
    found = await (await page.request.get(url)).json()
    stream = found["numbers"]["stream"]
    return {
        f"{stream}:{n}": [
            "" if owner < 0 else found["names"][owner],
            "" if fence is None else str(fence),
            STATES[state],
        ]
        for n, owner, fence, state, _, _ in found["cells"]
    }


async def equals_the_server(page: Page) -> bool:
    return bool(await snapshot_rows(page) == await page.evaluate(ROWS))


async def test_a_rebalance_is_seen_without_a_reload(stage: Stage, logged_in: NewContext) -> None:
    base = f"/groups/{stage.group.name}/"
    page, balance, history = [
        await opened(logged_in, base + tab) for tab in ("", "balance/", "history/")
    ]
    owners = {p: row[0] for p, row in (await page.evaluate(ROWS)).items()}
    points = await balance.evaluate(POINTS)
    lines = await history.locator("#rebalances tbody tr").count()

    await stage.join("d")
    await stage.settled()

    async def three_changed_hands() -> bool:
        now = await page.evaluate(ROWS)
        moved = [p for p in owners if now[p][0] != owners[p] and now[p][2] == "owned"]
        return len(moved) == 3 and {now[p][0] for p in moved} == {"d"}

    await until(three_changed_hands, "three partitions of d in the table")
    assert await equals_the_server(page)
    numbers = dict.fromkeys("abcd", 3)
    assert await page.evaluate(LEGEND) == numbers

    async def charts_have_the_point() -> bool:
        return bool(await balance.evaluate(POINTS) > points)

    async def history_has_the_line() -> bool:
        return await history.locator("#rebalances tbody tr").count() > lines

    await until(charts_have_the_point, "balance degree and stickiness have one more point")
    before, after = points, await balance.evaluate(POINTS)
    assert all(later > earlier for earlier, later in zip(before, after, strict=True))
    await until(history_has_the_line, "a new line in History")
    newest = history.locator("#rebalances tbody tr").first
    assert re.search("join|able", await newest.inner_text())
    for seen in (page, balance, history):
        await assert_not_reloaded(seen)


class Wire:
    """The socket of one page, which can be cut without anybody being told."""

    def __init__(self) -> None:
        self.is_cut = False

    def route(self, browser: WebSocketRoute) -> None:
        server = browser.connect_to_server()
        server.on_message(lambda text: None if self.is_cut else browser.send(text))
        browser.on_message(lambda text: None if self.is_cut else server.send(text))


async def test_a_cut_socket_is_said_and_made_good(stage: Stage, logged_in: NewContext) -> None:
    wire = Wire()
    context = await logged_in()
    page = await context.new_page()
    await page.route_web_socket(re.compile("/ws/group/"), wire.route)
    await page.goto(f"/groups/{stage.group.name}/")
    await light_is(page, "live")
    await page.evaluate(NOT_RELOADED)

    wire.is_cut = True
    await context.set_offline(True)
    before = await page.evaluate(ROWS)
    await stage.leave("b")
    await stage.settled()
    await light_is(page, "stale")
    assert re.search(r"stale since \d\d:\d\d:\d\d", await page.inner_text("#light"))
    await page.wait_for_timeout(10_000)  # the cut itself is what is tested: ten seconds of it
    assert await page.get_attribute("#light", "data-light") == "stale"
    assert await page.evaluate(ROWS) == before

    wire.is_cut = False
    await context.set_offline(False)
    await light_is(page, "live")

    async def same() -> bool:
        return await equals_the_server(page)

    await until(same, "the page equals the server's snapshot")
    assert "b" not in {row[0] for row in (await page.evaluate(ROWS)).values()}
    await assert_not_reloaded(page)


async def test_a_lost_frame_is_noticed_and_made_good(stage: Stage, logged_in: NewContext) -> None:
    lost: list[str] = []

    def route(browser: WebSocketRoute) -> None:
        server = browser.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            if '"cells":' in str(text) and not lost:
                lost.append(str(text))
            else:
                browser.send(text)

        server.on_message(pass_on)

    context = await logged_in()
    page = await context.new_page()
    await page.route_web_socket(re.compile("/ws/group/"), route)
    await page.goto(f"/groups/{stage.group.name}/")
    await light_is(page, "live")
    await stage.leave("a")
    await stage.settled()

    async def lost_and_the_same() -> bool:
        rows = await page.evaluate(ROWS)
        return (
            bool(lost)
            and "a" not in {r[0] for r in rows.values()}
            and await equals_the_server(page)
        )

    await until(lost_and_the_same, "a frame was lost and the page equals the snapshot")


async def test_a_redis_that_does_not_answer_is_said_and_made_good(
    stage: Stage, logged_in: NewContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await opened(logged_in, f"/groups/{stage.group.name}/")
    state, rows = page.locator("#group-state"), await page.evaluate(ROWS)
    assert await state.inner_text() == "steady"
    breaker = connection._breaker(settings.REDIS_URL)
    with monkeypatch.context() as away:
        # Opened, a call that was under way would close it again.
        away.setattr(breaker, "lets_pass", lambda: False)
        await light_is(page, "stale")
        await page.reload()
        await light_is(page, "stale")
        assert re.match(r"stale since \d\d:\d\d:\d\d", await page.locator("#light").inner_text())
        assert await state.inner_text() == "unknown"
        assert await page.evaluate(ROWS) == rows, "what was seen last is shown"
        assert await page.locator("#problem").is_visible()
    await light_is(page, "live")
    assert await state.inner_text() == "steady"
    assert not await page.locator("#problem").is_visible()


async def test_times_are_of_the_zone_that_is_chosen_and_go_on(logged_in: NewContext) -> None:
    page = await (await logged_in(timezone_id="Asia/Kolkata")).new_page()
    await page.goto("/audit/")
    time = page.locator("#audit time").first
    exact = datetime.fromisoformat(str(await time.get_attribute("datetime")))
    form = "%Y-%m-%d %H:%M:%S"
    assert await time.inner_text() == exact.strftime(form)
    await page.click("button[name=clock]")
    await page.wait_for_selector('html[data-clock="local"]')
    await page.wait_for_selector("time[data-ago]")
    assert await time.inner_text() == exact.astimezone(ZoneInfo("Asia/Kolkata")).strftime(form)
    assert "what is typed, and what a file has, is UTC" in await page.inner_text("footer")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    before = await time.get_attribute("data-ago")

    async def goes_on() -> bool:
        return await time.get_attribute("data-ago") != before

    await until(goes_on, "how long ago it was changes")
    assert not [url for url in asked if "/attention" not in url]
