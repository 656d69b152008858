"""A plan from one browser to another: proposed, approved, run and compared; refused when stale."""

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from playwright.async_api import Browser, Page

from dashboard.models import Group, Plan
from tests.dashboard.people import granted
from tests.e2e.browser.conftest import PASSWORD
from tests.e2e.browser.stage import Stage, until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def person(name: str, role: str, effect: str = "allow") -> None:
    granted(User.objects.create_user(name, password=PASSWORD), role, effect=effect)


async def page_of(chromium: Browser, address: str, name: str, role: str, effect: str) -> Page:
    """Logged in by password, in a browser of their own."""
    await sync_to_async(person)(name, role, effect)
    page = await (await chromium.new_context(base_url=address)).new_page()
    await page.goto("/login/")
    await page.fill("[name=username]", name)
    await page.fill("[name=password]", PASSWORD)
    await page.click("button.first")
    await page.wait_for_url(f"{address}/")
    return page


async def proposed(page: Page, group: Group) -> str:
    """The link that is given to who decides."""
    await page.goto(f"/groups/{group.name}/rebalance/")
    await page.check('[name=strategy][value="averagely"]')
    await page.fill("[name=reason]", "contiguous blocks")
    assert await page.locator("#run").is_disabled()
    await page.click("#propose")
    await page.wait_for_url("**/plans/*/")
    return page.url


async def pressed(page: Page, button: str) -> None:
    """Its form was sent, and the page that answers is there: a click alone waits for neither."""
    async with page.expect_navigation():
        await page.click(f'button:text-is("{button}")')


async def approve(page: Page, link: str) -> None:
    await page.goto(link)
    await page.click('a:text-is("Approve")')
    await page.fill("[name=reason]", "looked at it")
    await pressed(page, "Approve")


async def cells(page: Page, rows: str) -> list[tuple[str, list[str]]]:
    """Of each row its first cell's text, and that of the data cells."""
    return [
        (await row.locator("th, td").first.inner_text(), await row.locator("td").all_inner_texts())
        for row in await page.locator(rows).all()
    ]


async def test_proposed_by_one_approved_by_another_run_and_compared(
    stage: Stage, chromium: Browser, address: str
) -> None:
    sam = await page_of(chromium, address, "sam", "operator", "stage")
    ada = await page_of(chromium, address, "ada", "approver", "allow")
    link = await proposed(sam, stage.group)
    assert await sam.locator('#plan a:text-is("Approve")').count() == 0
    await approve(ada, link)
    assert "approved" in await ada.inner_text("#plan dl.facts")
    await sam.goto(link)
    await sam.click('a:text-is("Run")')
    await pressed(sam, "Run")
    moves = await sam.locator("#moves tbody tr").count()
    assert moves > 0

    async def is_compared() -> bool:
        confirmed = sam.locator('#moves tr[data-outcome="confirmed"]')
        state = await sam.locator("#plan [data-state]").first.get_attribute("data-state")
        return await confirmed.count() == moves and state == "done"

    await until(is_compared, "the page shows each move as confirmed, by itself")
    (predicted,) = await sync_to_async(list)(Plan.objects.all())
    shown = dict(await cells(sam, "#metrics tbody tr"))
    assert shown["Moves"] == [str(predicted.content.moves_in_all)] * 2
    assert shown["Balance degree after"][0] == shown["Balance degree after"][1] != "—"
    by_owner = {(row[1], row[2], row[5]) for _, row in await cells(sam, "#moves tbody tr")}
    assert all(giver != taker == owner for giver, taker, owner in by_owner)


async def test_a_stale_plan_is_refused(stage: Stage, chromium: Browser, address: str) -> None:
    sam = await page_of(chromium, address, "sam", "operator", "stage")
    ada = await page_of(chromium, address, "ada", "approver", "allow")
    link = await proposed(sam, stage.group)
    await stage.join("d")
    await stage.settled()
    await approve(ada, link)
    assert "the plan is stale" in await ada.inner_text("main")
    plan = await sync_to_async(Plan.objects.get)()
    assert (plan.state, plan.started_at_ms) == ("stale", None)
