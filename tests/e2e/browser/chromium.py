"""The machine's Chromium, without a window, and somebody who is logged in with it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, async_playwright

from dashboard.evaluation.screenshots.chromium import FLAGS, executable


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable(), args=FLAGS)
        yield browser
        await browser.close()


async def log_in(browser: Browser, address: str, user: str, password: str) -> Any:
    """Its session, for further contexts."""
    context = await browser.new_context(base_url=address)
    page = await context.new_page()
    await page.goto("/login/")
    await page.fill("[name=username]", user)
    await page.fill("[name=password]", password)
    await page.click("button.first")
    await page.wait_for_url(f"{address}/")
    return await context.storage_state()
