"""The machine's Chromium, without a window, and somebody who is logged in with it."""

import asyncio
import os
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stderr
from typing import Any

import pytest
from playwright.async_api import Browser, Error, async_playwright

from dashboard.evaluation.screenshots.chromium import FLAGS, executable

STARTS_MAX = 3
WORDS_MAX = 4_000  # bytes of what it said last
HOW, LOOKS, LOOK_AGAIN_S = b"process did exit", 20, 0.1


class ChromiumEnded(UserWarning):
    """By itself, before anything was asked of it: what it said last. It was started again."""


@asynccontextmanager
async def launched(address: str) -> AsyncIterator[Browser]:
    """One that has shown a page of the dashboard. In one of some two thousand starts Chromium ends
    at its first page; that is told, in its own words, and says nothing of the dashboard.
    """
    async with AsyncExitStack() as stack:
        for start in range(1, STARTS_MAX + 1):
            browser, words = await stack.enter_async_context(_started())
            try:
                await _shows(browser, f"{address}/login/")
                break
            except Error:
                if browser.is_connected() or start == STARTS_MAX:
                    raise
                warnings.warn(await _last_words(words), ChromiumEnded, stacklevel=2)
        yield browser


@asynccontextmanager
async def _started() -> AsyncIterator[tuple[Browser, Any]]:
    """And the file that has what it says."""
    with tempfile.TemporaryFile("w+") as words:
        with redirect_stderr(words), pytest.MonkeyPatch.context() as patch:
            patch.setenv("DEBUG", "pw:browser")
            playwright = await async_playwright().start()
        try:
            browser = await playwright.chromium.launch(executable_path=executable(), args=FLAGS)
            try:
                yield browser, words
            finally:
                if not browser.is_connected():
                    print(await _last_words(words), file=sys.stderr)
                await browser.close()
        finally:
            await playwright.stop()


async def _shows(browser: Browser, address: str) -> None:
    context = await browser.new_context()
    await (await context.new_page()).goto(address)
    await context.close()


async def _last_words(words: Any) -> str:
    """Of a browser that ended: up to how it did, which is told a moment later."""
    for _ in range(LOOKS):
        size = os.fstat(words.fileno()).st_size
        last = os.pread(words.fileno(), WORDS_MAX, max(0, size - WORDS_MAX))
        if HOW in last:
            break
        await asyncio.sleep(LOOK_AGAIN_S)
    return last.decode(errors="replace")


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
