"""What the browser tests stand on: a Chromium that shows a page, or says why it does not."""

from types import SimpleNamespace

import psutil
import pytest
from playwright.async_api import Browser, Error

from tests.e2e.browser import chromium

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def end(browser: str) -> None:
    """Kills the newest of this process's, as if it had ended by itself."""
    mine = psutil.Process().children(recursive=True)
    main = [p for p in mine if browser in p.name() and "--type=" not in " ".join(p.cmdline())]
    max(main, key=psutil.Process.create_time).kill()


def ends_at_its_first_page(monkeypatch: pytest.MonkeyPatch, times: int) -> list[Browser]:
    """The browsers that were started."""
    shows, begun = chromium._shows, list[Browser]()

    async def shows_or_ends(browser: Browser, address: str) -> None:
        begun.append(browser)
        if len(begun) <= times:
            end("chrom")
        await shows(browser, address)

    monkeypatch.setattr(chromium, "_shows", shows_or_ends)
    return begun


async def test_one_that_ends_at_its_first_page_is_started_again_and_that_is_told(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, told = ends_at_its_first_page(monkeypatch, 1), list[str]()
    note = SimpleNamespace(warn=lambda text, kind, **_: told.append(text))
    monkeypatch.setattr(chromium, "warnings", note)
    async with chromium.launched(address) as browser:
        page = await browser.new_page()
        await page.goto(f"{address}/login/")
        assert await page.locator("[name=username]").count() == 1
    assert len(begun) == 2
    assert ["signal=SIGKILL" in text for text in told] == [True]


@pytest.mark.filterwarnings("ignore::tests.e2e.browser.chromium.ChromiumEnded")
async def test_one_that_never_shows_a_page_is_a_failure_that_says_how_it_ended(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = ends_at_its_first_page(monkeypatch, chromium.STARTS_MAX)
    with pytest.raises(Error, match="closed"):
        async with chromium.launched(address):
            raise AssertionError("it was used")
    assert len(begun) == chromium.STARTS_MAX
    assert capsys.readouterr().err.count("signal=SIGKILL") == chromium.STARTS_MAX
