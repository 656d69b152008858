"""What somebody does in a browser, and how every page looks to it."""

import json
import re
import urllib.request
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import Page

from dashboard import coordinator
from dashboard.actions import groups
from dashboard.models import AuditSource, Group
from dashboard.records.audit import By
from tests.dashboard.agents import make_group
from tests.e2e.browser.conftest import NewContext
from tests.e2e.browser.stage import Stage, background, until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1440, "height": 900}
BROAD = {"width": 2560, "height": 1440}


async def page_of(new: NewContext, **options: Any) -> Page:
    return await (await new(**options)).new_page()


def post(url: str, token: str, body: dict[str, Any]) -> int:
    request = urllib.request.Request(
        url,
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return int(answer.status)


async def test_a_group_and_a_token_are_made_and_the_token_works(
    address: str, logged_in: NewContext, group_name: str
) -> None:
    page = await page_of(logged_in)
    name = f"{group_name}-made"
    await page.goto("/groups/")
    await page.click("text=New group")
    await page.fill("[name=name]", name)
    await page.fill("[name=stream]", f"s-{name}")
    await page.fill("[name=partitions]", "6")
    await page.select_option("[name=strategy]", "averagely")
    await page.click("text=Create group")
    await page.wait_for_url(f"**/groups/{name}/tokens/")
    await page.fill("[name=name]", "night shift")
    await page.click("text=Create token")
    token = await page.inner_text("#token")
    command = await page.inner_text("#agent-command")
    assert f"--group {name}" in command
    assert token in command
    assert address in command

    await page.goto(f"/groups/{name}/")
    assert token not in await page.content()
    assert await page.locator("#ownership tbody tr").count() == 6
    joining = {"member": "first", "secret": "s" * 32, "host": "here", "version": "1"}
    url = f"{address}/api/agent/v1/{name}/join"
    assert await sync_to_async(post, thread_sensitive=False)(url, token, joining) == 200

    async def is_shown() -> bool:
        return await page.locator('#legend li[data-member="first"]').count() == 1

    await until(is_shown, "the member that joined with the token is on the map")


async def test_a_rebalance_from_the_browser(stage: Stage, logged_in: NewContext) -> None:
    page = await page_of(logged_in)
    await page.goto(f"/groups/{stage.group.name}/")
    await page.click("text=Preview rebalance")
    row = page.locator('#previews tr[data-strategy="averagely"]')
    predicted = int(await row.locator("[data-moves]").get_attribute("data-moves") or "")
    assert predicted > 0
    run, idle = page.locator("#run"), page.locator("#idle")
    assert await run.is_disabled() and "Nothing would move" in await idle.inner_text()
    await row.locator("input").check()
    assert await run.is_enabled() and await idle.is_hidden()
    await page.fill("[name=reason]", "contiguous blocks")
    await page.click("text=Run this rebalance")
    await page.wait_for_url("**/plans/*/")

    async def is_done() -> bool:
        rows = page.locator('#moves tr[data-outcome="confirmed"]')
        return await rows.count() == predicted and "done" in await page.inner_text("#plan")

    await until(is_done, "each move of the plan is confirmed")
    last = await sync_to_async(stage.group.rebalances.first)()
    assert last is not None
    assert (last.moved, last.strategy, last.actor) == (predicted, "averagely", "ann")


async def test_click_and_keys_on_the_map_open_a_partition(
    stage: Stage, logged_in: NewContext
) -> None:
    page = await page_of(logged_in, viewport=WIDE)
    await page.goto(f"/groups/{stage.group.name}/")
    await page.hover("#map", position={"x": 20, "y": 20})
    assert f"{stage.group.stream}:0" in await page.inner_text("#card")
    await page.focus("#map")
    for key in ("ArrowRight", "ArrowRight"):
        await page.keyboard.press(key)
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile(r"/partitions/\d+/"))
    await page.go_back()
    await page.click("#map", position={"x": 20, "y": 20})
    await page.wait_for_url("**/partitions/0/")


async def test_map_stays_where_it_is_when_the_page_is_live(
    stage: Stage, logged_in: NewContext
) -> None:
    page = await page_of(logged_in)
    await page.goto(f"/groups/{stage.group.name}/")
    await until(lambda: page.evaluate("document.getElementById('map').width > 300"), "a map")
    tops = """() => ["server's view", "catching up", "live"].map((word) => {
      document.querySelector("#light span").textContent = word;
      return document.getElementById("map").getBoundingClientRect().top;
    })"""
    for width in range(380, 1600, 20):
        await page.set_viewport_size({"width": width, "height": 900})
        assert len(set(await page.evaluate(tops))) == 1, width


async def test_a_map_of_many_partitions_is_zoomed(stage: Stage, logged_in: NewContext) -> None:
    group = await sync_to_async(make_group)(f"{stage.group.name}-many", partitions=600)
    await sync_to_async(coordinator.tick)()
    page = await page_of(logged_in, viewport=WIDE)
    await page.goto(f"/groups/{group.name}/")
    said = page.locator("#map-zoom output")
    assert await said.inner_text() == ""
    await page.click("[data-zoom=in]")
    assert await said.inner_text() == "partitions 150 to 449 of 600"
    await page.click("[data-zoom=later]")
    assert await said.inner_text() == "partitions 300 to 599 of 600"
    assert page.url.endswith("#300-599")
    await page.hover("#map", position={"x": 5, "y": 5})
    assert f"{group.stream}:300" in await page.inner_text("#card")
    await page.reload()
    assert await said.inner_text() == "partitions 300 to 599 of 600"
    await page.focus("#map")
    for key, shown in (("+", "375 to 524"), ("PageUp", "300 to 449"), ("-", "225 to 524")):
        await page.keyboard.press(key)
        assert await said.inner_text() == f"partitions {shown} of 600", key
    await page.keyboard.press("0")
    assert await said.inner_text() == "" and "#" not in page.url
    assert await page.is_disabled("[data-zoom=out]")


async def test_overlays_change_the_picture(stage: Stage, logged_in: NewContext) -> None:
    page = await page_of(logged_in)
    await page.goto(f"/groups/{stage.group.name}/")
    picture = "document.getElementById('map').toDataURL()"
    await until(lambda: page.evaluate("document.getElementById('map').width > 300"), "a map")
    seen = [await page.evaluate(picture)]
    for overlay in ("lag", "age", "moves"):
        await page.select_option("[data-overlay]", overlay)

        async def is_another() -> bool:
            return await page.evaluate(picture) not in seen

        await until(is_another, f"the picture of {overlay}")
        seen.append(await page.evaluate(picture))


async def test_readable_without_a_script(stage: Stage, logged_in: NewContext) -> None:
    page = await page_of(logged_in, java_script_enabled=False)
    for tab, text in (("", "Who owns what"), ("balance/", "The same as a table")):
        await page.goto(f"/groups/{stage.group.name}/{tab}")
        assert text in await page.inner_text("main")
    await page.goto(f"/groups/{stage.group.name}/")
    assert await page.locator('#ownership tr[data-state="owned"]').count() == 12


def every_page(group: Group) -> list[str]:
    base = f"/groups/{group.name}/"
    tabs = "ownership/ members/ members/a/ partitions/ partitions/0/ balance/ history/ settings/"
    tabs += " pause/ plans/ attention/ rebalance/ tokens/ ?epoch=2"
    histories = ("history/?show=ownership", "history/?show=scale-downs")
    then = "ownership members/a partitions/0 balance history plans attention settings pause"
    past = [f"{tab}/?epoch=2" for tab in then.split()]
    own = ["", *tabs.split(), "scale-down/", *histories, *past]
    some = ["/", "/groups/", "/new-group/", "/audit/", "/webhooks/", "/search/", "/api-tokens/"]
    return [*some, *(base + tab for tab in own)]


@pytest.mark.parametrize(
    ("size", "scheme"), [(NARROW, "dark"), (WIDE, "light")], ids=["narrow", "wide"]
)
async def test_every_page_fits_and_nothing_complains(
    stage: Stage, logged_in: NewContext, size: dict[str, int], scheme: str
) -> None:
    page = await page_of(logged_in, viewport=size, color_scheme=scheme)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(f"{page.url} {error}"))
    page.on(
        "console",
        lambda said: (
            complaints.append(f"{page.url} {said.text}")
            if said.type in ("error", "warning")
            else None
        ),
    )
    for path in every_page(stage.group):
        await page.goto(path)
        if path.startswith("/groups/g") and "?epoch" not in path:
            await page.wait_for_selector('#light[data-light="live"]')
        for shown in (size, BROAD) if size == WIDE else (size,):
            await page.set_viewport_size(shown)  # type: ignore[arg-type]
            over = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, (path, shown)
    assert complaints == []


# To its end; how far its first cell is then from its left side.
SCROLLED = """(box) => { box.scrollTo(box.scrollWidth, 0);
  const cell = box.querySelector("tbody td").getBoundingClientRect();
  return Math.abs(cell.x - box.getBoundingClientRect().x); }"""


async def test_the_last_column_is_seen_however_long_names_are(
    group: Group, logged_in: NewContext
) -> None:
    stage, state = Stage(group), {"stateful": True, "standby_replicas": 1}
    async with background(stage.play()):
        for number in range(3):
            await stage.join(f"consumer-on-host-{number}-1f2e3d4c5b6a")
        await stage.settled()
        await sync_to_async(groups.change_settings)(group, state, By("ann", AuditSource.PAGE))
        wide, narrow = [await page_of(logged_in, viewport=size) for size in (WIDE, NARROW)]
        for page in (wide, narrow):
            await page.goto(f"/groups/{group.name}/partitions/")
            over = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, "the page itself never scrolls sideways"
            assert await page.locator("#partitions th:has-text('Standbys')").count() == 1
        hidden = "(box) => box.scrollWidth - box.clientWidth"
        assert await wide.locator("#partitions .scroll").evaluate(hidden) <= 0
        await wide.goto(f"/groups/{group.name}/members/")
        assert await wide.locator("#members .scroll").first.evaluate(hidden) <= 0
        box = narrow.locator("#partitions .scroll")

        async def is_scrolled() -> bool:
            number_off = await box.evaluate(SCROLLED)  # of what may be replaced meanwhile
            return bool(number_off <= 2 and await box.evaluate("(box) => box.scrollLeft") > 0)

        await until(is_scrolled, "the box scrolls, and each row's number stays in view")
        async with narrow.expect_response("**fragment=partitions**"):
            await stage.join("consumer-on-host-4-1f2e3d4c5b6a")

        async def is_shown_again() -> bool:
            return await box.locator(".replica", has_text="host-4").count() > 0

        await until(is_shown_again, "the table is fetched again")
        assert await box.evaluate("(box) => box.scrollLeft") > 0, "where it was scrolled to"
