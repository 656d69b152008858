"""How soon a change of a lock is on the screen, and how long the map takes to be drawn.

A real web process and a real Chromium with the group's map open. Locks change by their own scripts,
1 % of the partitions a second; the lock's time is Redis' own (`at_ms` of its event), the screen's
that of the animation frame after the one in which the canvas was drawn with the new fence. Both
read the same machine's clock.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from dashboard.demo.embedded_redis import free_port
from tests.bench import apart
from tests.bench.apart import Figure, NotMeasured

CHANGE = (
    Figure(name="change_to_screen_p50_ms", aim=300),
    Figure(name="change_to_screen_p95_ms", aim=300),
)
REDRAW = {
    20_000: Figure(name="redraw_20k_ms", aim=16),
    100_000: Figure(name="redraw_100k_ms", aim=16),
}
SIZE = 20_000  # of the group that changes
SHARE_A_SECOND = 0.01
WARM_UP_S, MEASURED_S = 5.0, 30.0
LAST_S = 60.0  # after the last change, until it is seen
REDRAWS, REDRAWS_BEFORE = 120, 20  # so many are drawn before: what draws is compiled then
WINDOW = {"width": 1440, "height": 900}
START_S = 60.0
PASSWORD = "even-keel-even"
PROGRAM = "from tests.bench import screen; screen.measure(screen.{}, {})"

# Every picture that the map draws is compared with the one before: fences that it shows first.
WATCH = """async () => {
  const script = document.querySelector("script[src*='/map_page.js']").src;
  const {OwnershipMap} = await import(script.replace("map_page.js", "map.js"));
  const paint = OwnershipMap.prototype.paint;
  const seen = window.seen = {paint, map: null, fences: null, shown: []};
  OwnershipMap.prototype.paint = function (now) {
    const goesOn = paint.call(this, now), {fence, size} = this.cells;
    const before = seen.fences, drawn = [];
    for (let n = 0; before && n < size; n++) if (fence[n] !== before[n]) drawn.push([n, fence[n]]);
    seen.map = this; seen.fences = fence.slice(0, size);
    if (drawn.length) requestAnimationFrame(() => seen.shown.push([Date.now(), drawn]));
    return goesOn;
  };
  document.getElementById("legend").dispatchEvent(new Event("pointerleave")); // draws
}"""
IS_DRAWN = "(size) => window.seen.fences?.length === size"
SHOWN = "() => window.seen.shown"
# As the page draws, without comparing fences. Reading a pixel waits until all of them are there.
REDRAW_OFTEN = """async (times) => {
  const {map, paint} = window.seen, context = map.canvas.getContext("2d"), took = [];
  for (let i = 0; i < times; i++) {
    await new Promise(requestAnimationFrame);
    const began = performance.now();
    paint.call(map, began); context.getImageData(0, 0, 1, 1);
    took.push(performance.now() - began);
  }
  return took;
}"""


def figures() -> list[dict[str, Any]]:
    rows = apart.rows(CHANGE, changing)
    for size, figure in REDRAW.items():
        rows += apart.rows([figure], partial(redrawing, size))
    return rows


def changing() -> list[tuple[float, str]]:
    p50, p95, changes, per_second = apart.values(PROGRAM.format("changed", SIZE))
    of = f"{changes:.0f} locks of {SIZE} partitions, {per_second:.0f} a second"
    return [(round(p50), of), (round(p95), of)]


def redrawing(size: int) -> list[tuple[float, str]]:
    p50, p95 = apart.values(PROGRAM.format("redrawn", size))
    of = f"p95 of {REDRAWS} pictures of {size} partitions, median {p50:.1f} ms"
    return [(round(p95, 1), f"{of}; {WINDOW['width']} pixels wide")]


def measure(what: Callable[[Any, Any, int], Awaitable[list[float]]], size: int) -> None:
    """In a process of its own, beside the web process that it starts: prints what `changed` or
    `redrawn` returns.
    """
    from dashboard.evaluation.screenshots.chromium import NoChromium, executable

    try:
        executable()
    except NoChromium as error:
        raise NotMeasured(str(error)) from error
    from django.contrib.auth.models import User

    from tests.bench.live_group import LiveGroup

    live = LiveGroup(size)
    User.objects.create_superuser("bench", password=PASSWORD)
    print(*asyncio.run(looked_at(live, size, what)))


async def looked_at(
    live: Any, size: int, what: Callable[[Any, Any, int], Awaitable[list[float]]]
) -> list[float]:
    async with web() as address, map_page(address, size) as page:
        return await what(live, page, size)


async def redrawn(live: Any, page: Any, size: int) -> list[float]:
    """Median and 95th of a hundred, in milliseconds."""
    apart.progress(f"{REDRAWS} pictures of {size} partitions")
    took = await page.evaluate(REDRAW_OFTEN, REDRAWS_BEFORE + REDRAWS)
    del took[:REDRAWS_BEFORE]
    return [apart.share(took, 50), apart.share(took, 95)]


async def changed(live: Any, page: Any, size: int) -> list[float]:
    """Median and 95th of a hundred, in milliseconds; how many, and a second."""
    per_second = size * SHARE_A_SECOND
    apart.progress(f"{per_second:.0f} locks a second change, {WARM_UP_S + MEASURED_S:.0f} s")
    await asyncio.to_thread(live.hand_over_for, WARM_UP_S, per_second)
    since_ms = await asyncio.to_thread(now_ms)
    reached = await asyncio.to_thread(live.hand_over_for, MEASURED_S, per_second)
    granted = await asyncio.to_thread(grants, since_ms)
    until_s = time.monotonic() + LAST_S
    while True:
        shown = first_shown(await page.evaluate(SHOWN))
        if granted.keys() <= shown.keys() or time.monotonic() > until_s:
            took = waited(granted, shown)
            return [apart.share(took, 50), apart.share(took, 95), len(took), reached]
        await asyncio.sleep(0.5)


Grant = tuple[int, int]  # partition number, fence


def waited(granted: Mapping[Grant, int], shown: Mapping[Grant, int]) -> list[int]:
    """Of each grant, in milliseconds. Raises NotMeasured when some were never on the screen."""
    missing = len(granted.keys() - shown.keys())
    if missing or not granted:
        after = f"{LAST_S:.0f} s after the last"
        raise NotMeasured(f"{missing} of {len(granted)} changes were not on the screen {after}")
    return [shown[grant] - at_ms for grant, at_ms in granted.items()]


def first_shown(said: Iterable[tuple[int, Iterable[tuple[int, int]]]]) -> dict[Grant, int]:
    """Of what the page noted: the first frame that had a grant, in milliseconds since 1970."""
    found: dict[Grant, int] = {}
    for at_ms, drawn in said:
        for number, fence in drawn:
            found.setdefault((number, int(fence)), at_ms)
    return found


def now_ms() -> int:
    from dashboard.live import groups as live_groups

    return live_groups.redis_now_ms()


def grants(since_ms: int) -> dict[Grant, int]:
    """What the group's own events say was granted since: when, by Redis' clock."""
    from dashboard.live import groups as live_groups
    from tests.bench.live_group import NAME

    cursor, found = "0-0", dict[Grant, int]()
    while events := live_groups.events_after(NAME, cursor):
        cursor = events[-1].entry_id
        for event in events:
            if event.kind == "acquired" and event.at_ms >= since_ms:
                found[event.partition.number, event.fence] = event.at_ms
    return found


@asynccontextmanager
async def map_page(address: str, size: int) -> AsyncIterator[Any]:
    """The group's map in a window, live, with every partition drawn."""
    from playwright.async_api import TimeoutError

    from tests.bench.live_group import NAME
    from tests.e2e.browser.chromium import launched, log_in

    async with launched(address) as browser:
        state = await log_in(browser, address, "bench", PASSWORD)
        context = await browser.new_context(base_url=address, storage_state=state, viewport=WINDOW)
        page = await context.new_page()
        page.set_default_timeout(START_S * 1000)
        await page.goto(f"/groups/{NAME}/")
        await page.evaluate(WATCH)
        try:
            await page.wait_for_function(IS_DRAWN, arg=size)
            await page.wait_for_selector("#light[data-light=live]")
        except TimeoutError as error:
            took = f"within {START_S:.0f} s"
            raise NotMeasured(f"the map of {size} partitions was not drawn {took}") from error
        yield page


@asynccontextmanager
async def web() -> AsyncIterator[str]:
    """The address of a web process as it is started; ended with the block."""
    port = free_port()
    options = ("--port", str(port), "--log-level", "warning", "--no-access-log")
    process = subprocess.Popen([sys.executable, "-m", "dashboard.web", *options], cwd=apart.ROOT)
    try:
        await answers(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


async def answers(process: "subprocess.Popen[bytes]", port: int) -> None:
    until_s = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until_s:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.2)
        else:
            writer.close()
            return
    raise NotMeasured(f"the web process did not answer within {START_S:.0f} s")
