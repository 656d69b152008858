"""Members told to leave in the browser: three real agents, each with a state of its own."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import Page

from dashboard.coordinator import running
from dashboard.models import Group
from tests.dashboard.agents import make_group
from tests.e2e.browser.conftest import NewContext
from tests.e2e.browser.real import TIMINGS, RealStage
from tests.e2e.browser.stage import background, until
from tests.e2e.browser.test_browser_live import assert_not_reloaded, opened
from tests.e2e.browser.test_browser_pages import NARROW, WIDE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MARKS = """() => Object.fromEntries([...document.querySelectorAll('#ownership tbody tr')].map(
  ({dataset: d}) => [d.number, {owner: d.owner, fence: d.fence, state: d.state, learner: d.learner,
                                percent: d.percent, ready: d.ready, leaving: d.leaving}]))"""
PICTURE = "document.getElementById('map').toDataURL()"
Marks = dict[str, dict[str, str]]


@pytest.fixture
def group(transactional_db: None, store: Any, group_name: str) -> Group:
    return make_group(group_name, partitions=6, stateful=True, **TIMINGS)


@pytest.fixture
async def real(
    group: Group, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RealStage]:
    """a, b and c own two partitions each and have processed what is in them."""
    monkeypatch.setattr(running, "ROUNDS_MAX", 1)  # a step is one round: it can be held after
    made = RealStage(group, address, tmp_path)
    async with background(made.play()):
        try:
            await made.start("a", "b", "c")
            yield made
        finally:
            await sync_to_async(made.close)()


async def marks(page: Page) -> Marks:
    found: Marks = await page.evaluate(MARKS)
    return found


async def reads(page: Page, text: str) -> None:
    """The wizard's reading is this."""

    async def it_does() -> bool:
        found = page.locator(".reading")
        return bool(await found.count()) and text in await found.inner_text()

    await until(it_does, f"the reading {text!r}")


async def marked(page: Page) -> list[str]:
    boxes = page.locator("#candidates input:checked")
    return [await box.input_value() for box in await boxes.all()]


async def told(new: NewContext, group: Group, *, percent: str = "66") -> tuple[Page, str]:
    """(the page of the scale-down, who leaves); by the button and the wizard."""
    page = await (await new()).new_page()
    await page.goto(f"/groups/{group.name}/")
    await page.click("#actions >> text=Scale down")
    await page.fill("#percent", percent)
    await reads(page, f"keep {percent} % = 2 members; 1 leaves")
    (leaver,) = await marked(page)
    assert await page.input_value("[name=timeout]") == "10 min"
    await page.fill("[name=reason]", "fewer flights at night")
    await page.click("#tell")
    await page.wait_for_url(re.compile(r"/scale-down/\d+/$"))
    return page, leaver


async def learners_are_ready(page: Page, owner: str) -> Marks:
    """The leaver's rows, as soon as each has a learner that is ready; it owns them still."""

    async def ready() -> Marks | None:
        rows = {n: row for n, row in (await marks(page)).items() if row["owner"] == owner}
        return rows if rows and all(row["ready"] == "yes" for row in rows.values()) else None

    found: Marks = await until(ready, "a ready learner of each partition that is left")
    return found


async def test_one_of_three_leaves_when_others_have_learned_its_state(
    real: RealStage, logged_in: NewContext
) -> None:
    map_page = await opened(logged_in, f"/groups/{real.group.name}/")
    before = await marks(map_page)
    picture = await map_page.evaluate(PICTURE)
    real.holds = True
    page, leaver = await told(logged_in, real.group)

    held = await learners_are_ready(map_page, leaver)
    assert len(held) == 2
    for row in held.values():
        assert (row["state"], row["percent"], row["leaving"]) == ("owned", "100", "leaving")
        assert row["learner"] not in ("", leaver)
    assert {n: row["fence"] for n, row in held.items()} == {n: before[n]["fence"] for n in held}
    assert await map_page.evaluate(PICTURE) != picture
    legend = map_page.locator(f'#legend li[data-member="{leaver}"]')
    assert "leaving" in await legend.inner_text()

    async def both_are_ready_here_too() -> bool:
        rows = page.locator('#left tr[data-state="ready"]')
        return await rows.count() == 2

    await until(both_are_ready_here_too, "the scale-down's own page says so")
    assert re.search(r"9 min \d+ s", await page.inner_text("[data-until]"))

    real.holds = False

    async def changed_hands() -> bool:
        rows = await marks(map_page)
        return all(rows[n]["owner"] == held[n]["learner"] for n in held) and all(
            row["state"] == "owned" and not row["learner"] for row in rows.values()
        )

    await until(changed_hands, "the learners are the owners")

    async def has_ended() -> bool:
        return await page.locator('.run[data-state="done"]').count() == 1

    await until(has_ended, "the record ended")
    row = page.locator(f'#leaving tr[data-member="{leaver}"]')
    assert await row.get_attribute("data-outcome") == "clean"
    assert await asyncio.to_thread(real.process_of(leaver).wait, 10) == 0

    async def is_off_the_legend() -> bool:
        return await legend.count() == 0

    await until(is_off_the_legend, "the member is no longer on the map")
    after = await marks(map_page)
    stayed = {n for n in before if n not in held}
    assert {n: after[n]["fence"] for n in stayed} == {n: before[n]["fence"] for n in stayed}
    assert "Scale down" in await map_page.inner_text("#actions")
    await assert_not_reloaded(map_page)


async def test_another_is_aborted_half_way(real: RealStage, logged_in: NewContext) -> None:
    map_page = await opened(logged_in, f"/groups/{real.group.name}/")
    before = await marks(map_page)
    real.holds = True
    page, leaver = await told(logged_in, real.group)
    await learners_are_ready(map_page, leaver)

    await page.click('a:text-is("Abort")')
    await page.wait_for_url("**/?do=abort")
    await page.click('button:text-is("Abort it")')
    assert await page.locator("[name=reason]:invalid").count() == 1, "it asks for a reason"
    await page.fill("[name=reason]", "they are needed after all")
    await page.click('button:text-is("Abort it")')
    await page.wait_for_url(re.compile(r"/scale-down/\d+/$"))
    row = page.locator(f'#leaving tr[data-member="{leaver}"]')
    assert await row.get_attribute("data-outcome") == "cancelled"
    assert await page.locator('.run[data-state="cancelled"]').count() == 1
    real.holds = False

    async def nobody_learns_or_leaves() -> bool:
        rows = (await marks(map_page)).values()
        return not any(row["learner"] or row["leaving"] for row in rows)

    await until(nobody_learns_or_leaves, "learners are dropped")
    after = await marks(map_page)
    for name in ("owner", "fence"):
        assert {n: r[name] for n, r in after.items()} == {n: r[name] for n, r in before.items()}
    assert {agent.poll() for agent in real.agents.values()} == {None}
    await page.goto(f"/groups/{real.group.name}/history/?show=scale-downs")
    assert "cancelled" in await page.inner_text("#scale-downs")
    await assert_not_reloaded(map_page)


async def test_the_wizard_reads_what_is_typed_and_marked(
    real: RealStage, logged_in: NewContext
) -> None:
    page = await (await logged_in()).new_page()
    await page.goto(f"/groups/{real.group.name}/scale-down/")
    await reads(page, "keep 66 % = 2 members; 1 leaves")
    for typed, said in (
        ("101", "percent 101 is not within 1 and 100"),
        ("abc", "is not a whole number"),
    ):
        await page.fill("#percent", typed)
        await page.wait_for_selector(f"#percent_errors >> text={said}")
        assert await page.locator(".reading").count() == 0
    await page.fill("#percent", "33")
    await reads(page, "keep 33 % = 1 member; 2 leave")
    assert await page.evaluate("document.activeElement.id") == "percent"
    leavers = await marked(page)
    assert len(leavers) == 2
    await page.uncheck(f'#candidates input[value="{leavers[0]}"]')
    await reads(page, "keep 66.7 % = 2 members; 1 leaves")
    assert await marked(page) == leavers[1:]
    await page.uncheck(f'#candidates input[value="{leavers[1]}"]')
    await page.wait_for_selector("#member_errors >> text=Nobody is marked")


async def test_it_works_without_a_script_and_every_page_fits(
    real: RealStage, logged_in: NewContext
) -> None:
    real.holds = True
    base = f"/groups/{real.group.name}/"
    page = await (await logged_in(java_script_enabled=False)).new_page()
    await page.goto(f"{base}scale-down/")
    await page.fill("#percent", "33")
    await page.click("[name=preview][value=percent]")
    assert "keep 33 % = 1 member; 2 leave" in await page.inner_text(".reading")
    kept, *_ = await marked(page)
    await page.uncheck(f'#candidates input[value="{kept}"]')
    await page.click("[name=preview][value=members]")
    assert "keep 66.7 % = 2 members; 1 leaves" in await page.inner_text(".reading")
    await page.fill("[name=reason]", "without a script")
    await page.click("#tell")
    await page.wait_for_url(re.compile(r"/scale-down/\d+/$"))
    address = page.url
    assert await page.locator("#leaving tbody tr").count() == 1
    for size, scheme in ((NARROW, "dark"), (WIDE, "light")):
        seen = await (await logged_in(viewport=size, color_scheme=scheme)).new_page()
        complaints: list[str] = []
        seen.on("pageerror", lambda error, said=complaints: said.append(str(error)))
        seen.on(
            "console",
            lambda one, said=complaints: (
                said.append(one.text) if one.type in ("error", "warning") else None
            ),
        )
        tabs = ("", "members/", "partitions/", "partitions/0/", "history/?show=scale-downs")
        actions = ("", "?do=abort", "?do=extend")
        for path in [*(base + tab for tab in tabs), *(address + action for action in actions)]:
            await seen.goto(path)
            await seen.wait_for_selector('#light[data-light="live"]')
            wide = await seen.evaluate("document.documentElement.scrollWidth")
            assert wide <= size["width"], path
        assert complaints == []
