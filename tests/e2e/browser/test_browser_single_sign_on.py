"""Log in by a provider as a browser does it, under our Content-Security-Policy."""

import asyncio
import threading
import urllib.request
from typing import Any

import pytest
from playwright.async_api import Browser

from tests.dashboard.single_sign_on.conftest import provider  # noqa: F401
from tests.fakes.openid import OpenIdProvider

DESCRIPTION = "/.well-known/openid-configuration"
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


async def test_one_click_leads_by_other_sites_to_the_page_that_was_asked_for(
    chromium: Browser,
    address: str,
    provider: OpenIdProvider,  # noqa: F811
) -> None:
    """From one host to another, as a provider does that asks a second one."""
    other = provider.issuer.replace("127.0.0.1", "localhost")

    def sent_on(handler: Any) -> None:
        del provider.answers["/authorize"]
        handler.say(302, b"", Location=f"{other}{handler.path}")

    provider.answers["/authorize"] = sent_on
    page = await (await chromium.new_context(base_url=address)).new_page()
    said = list[str]()
    page.on("console", lambda message: said.append(message.text))
    await page.goto("/audit/")
    await page.click("text=Log in with Harbour")
    await page.wait_for_url(f"{address}/audit/")
    assert await page.inner_text(".who .user") == "olga"
    await page.click("text=Log out")
    await page.wait_for_url("**/login/")
    assert not [line for line in said if "Content Security Policy" in line]


async def test_a_provider_that_hangs_keeps_nobody_else_waiting(
    chromium: Browser,
    address: str,
    provider: OpenIdProvider,  # noqa: F811
) -> None:
    asked, end = threading.Event(), threading.Event()

    def hangs(handler: Any) -> None:
        asked.set()
        end.wait(30)

    provider.answers[DESCRIPTION] = hangs
    page = await (await chromium.new_context(base_url=address)).new_page()
    await page.goto("/login/")
    click = asyncio.ensure_future(page.click("text=Log in with Harbour"))
    assert await asyncio.to_thread(asked.wait, 10)
    other = await (await chromium.new_context(base_url=address)).new_page()
    await other.goto("/login/")
    assert await asyncio.to_thread(healthy, address)
    assert not end.is_set() and await other.locator("text=Log in with Harbour").count() == 1
    await page.wait_for_selector("text=did not answer in time")
    await click
    end.set()


def healthy(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/healthz", timeout=4) as answer:
        return bool(answer.status == 200)
