"""The time machine: a moment of a real handover, keys, play, two epochs beside each other."""

import json
import random
from typing import Any

import numpy as np
import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import Page

from assignment.scripts.lock_events import LockEvent
from dashboard.live import groups as live_groups
from dashboard.models import Group
from tests.dashboard.test_ownership_maps import replayed
from tests.e2e.browser.conftest import NewContext
from tests.e2e.browser.stage import Stage, until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

INSTANTS = 200
ROWS = """() => Object.fromEntries([...document.querySelectorAll('#ownership tbody tr')].map(
  (row) => [row.dataset.number, [row.dataset.owner, Number(row.dataset.fence)]]))"""
PAINTED = "() => [...document.querySelectorAll('canvas[data-map]')].every((one) => one.width > 300)"


async def handed_over(stage: Stage) -> list[LockEvent]:
    """b left and d came; history has all of it."""
    await stage.leave("b")
    await stage.settled()
    await stage.join("d")
    await stage.settled()

    async def ended() -> bool:
        running = stage.group.rebalances.filter(outcome="running")
        return not await sync_to_async(running.exists)()

    await until(ended, "the last round ended")
    return await sync_to_async(live_groups.events_after)(stage.group.name, "0-0", 10_000)


def replay(events: list[LockEvent], at_ms: int) -> dict[int, tuple[str, int]]:
    return {number: cell[:2] for number, cell in replayed(events, at_ms).items()}


async def opened(new: NewContext, path: str, **options: Any) -> tuple[Page, list[str]]:
    page, said = await (await new(**options)).new_page(), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    await page.goto(path)
    return page, said


async def test_the_map_at_200_moments_is_the_replay_of_the_event_stream(
    stage: Stage, logged_in: NewContext
) -> None:
    events, chance = await handed_over(stage), random.Random(7)
    base = f"/groups/{stage.group.name}/"
    page, said = await opened(logged_in, base)
    moments = [chance.randint(events[0].at_ms, events[-1].at_ms) for _ in range(INSTANTS)]
    for at_ms in moments:
        answer = await page.request.get(f"{base}map.bin?at={at_ms}")
        assert decoded(await answer.body()) == replay(events, at_ms), at_ms
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    for at_ms in moments[:3]:
        await page.fill("[name=at]", str(at_ms))
        await page.click(".scrubber button")
        await page.wait_for_selector("#as-of")
        await page.wait_for_function(PAINTED)
        rows = {int(n): (o, f) for n, (o, f) in (await page.evaluate(ROWS)).items() if o}
        assert rows == replay(events, at_ms), at_ms
        assert await page.locator("#actions button:not([disabled]), #actions a").count() == 0
    assert sockets == []
    assert said == []


def decoded(told: bytes) -> dict[int, tuple[str, int]]:
    length = int.from_bytes(told[:4], "little")
    head, start = json.loads(told[4 : 4 + length]), 4 + length
    size = head["size"]
    fences = np.frombuffer(told, "<f8", size, start).astype(int).tolist()
    owners = np.frombuffer(told, "<i4", size, start + 16 * size).tolist()
    return {n: (head["names"][at], fences[n]) for n, at in enumerate(owners) if at >= 0}


async def test_keys_go_from_epoch_to_epoch_and_back_to_live(
    stage: Stage, logged_in: NewContext
) -> None:
    await handed_over(stage)
    page, said = await opened(logged_in, f"/groups/{stage.group.name}/")
    epochs = await sync_to_async(_epochs)(stage.group)
    await page.keyboard.press("[")
    await page.wait_for_url(f"**/?epoch={epochs[-1]}")
    await page.keyboard.press("[")
    await page.wait_for_url(f"**/?epoch={epochs[-2]}")
    await page.keyboard.press("]")
    await page.wait_for_url(f"**/?epoch={epochs[-1]}")
    await page.keyboard.press("]")
    await page.wait_for_selector("#light")
    await page.keyboard.press("[")
    await page.wait_for_selector("#as-of")
    await page.keyboard.press("l")
    await page.wait_for_selector("#light")
    for tab in ("ownership", "partitions/0", "members/a", "balance", "attention", "settings"):
        await page.goto(f"/groups/{stage.group.name}/{tab}/?epoch={epochs[-1]}")
        await page.keyboard.press("[")
        await page.wait_for_url(f"**/{tab}/?epoch={epochs[-2]}")
        await page.wait_for_selector("#as-of")
    await page.keyboard.press("l")
    await page.wait_for_selector("#light")
    await page.goto(f"/groups/{stage.group.name}/")
    await page.focus("[name=at]")
    await page.keyboard.type("[l")
    assert await page.input_value("[name=at]") == "[l"
    assert said == []


def _epochs(group: Group) -> list[int]:
    return list(group.rebalances.order_by("target_epoch").values_list("target_epoch", flat=True))


async def test_an_epoch_is_played_where_motion_is_reduced_press_by_press(
    stage: Stage, logged_in: NewContext
) -> None:
    await handed_over(stage)
    epochs = await sync_to_async(_epochs)(stage.group)
    path = f"/groups/{stage.group.name}/?epoch={epochs[-1]}"
    page, said = await opened(logged_in, path, reduced_motion="reduce")
    told = await (await page.request.get(path.replace("?", "changes.json?"))).json()
    moments = sorted({change[0] for change in told["changes"]})
    for at_ms in moments:
        await page.click("#play button")
        until_then = sum(change[0] <= at_ms for change in told["changes"])
        await page.wait_for_function(
            "(text) => document.querySelector('#play output').textContent.startsWith(text)",
            arg=f"{until_then} of {len(told['changes'])} changes",
        )
    assert said == []
    moving, said = await opened(logged_in, path, reduced_motion="no-preference")
    await moving.click("#play button")
    whole = f"{len(told['changes'])} of {len(told['changes'])} changes"
    await moving.wait_for_function(
        "(text) => document.querySelector('#play output').textContent.startsWith(text)", arg=whole
    )
    assert said == []


# As the bytes of a moment are read, and as an epoch begins that is played from the map before it.
REPLICATED = """async ([past, playing]) => {
  const {PastGroup} = await import(past), {Play} = await import(playing);
  const group = new PastGroup(), place = document.createElement("div");
  const replicas = {learning: {b: [0]}, standby: {a: [1], b: [1, 9]}};
  const numbers = (Kind, ...values) => Kind.from(values);
  const found = {
    at_ms: 5, stream: "s", size: 3, several: [], names: ["a"], hues: [1], others: {b: 2}, replicas,
    owner: numbers(Int32Array, 0, 0, -1), fence: numbers(Float64Array, 1, 2, 0),
    since: numbers(Float64Array, 3, 4, 0),
  };
  const shown = () => [0, 1, 2].map((n) => [group.cells.learnerOf(n), group.cells.standbysOf(n)]);
  group.take(found);
  const first = shown();
  let without = [];
  group.read = async () => { group.take({...found, replicas: {}}); without = shown(); };
  place.innerHTML = "<button></button><output></output>";
  const play = new Play(place, group, {layout() {}});
  play.epoch = {names: [], hues: [], changes: []};
  await play.begin();
  return [first, without, shown(), group.cells.size, group.members.get("b").colour];
}"""


# How many pixels of one cell have the colour of its learner.
COLOURED = """async ([past, map]) => {
  const {PastGroup} = await import(past), {OwnershipMap} = await import(map);
  const group = new PastGroup(), place = document.createElement("div");
  group.take({
    at_ms: 5, stream: "s", size: 1, several: [], names: ["a"], hues: [1], others: {b: 4},
    replicas: {learning: {b: [0]}, standby: {}}, owner: Int32Array.of(0),
    fence: Float64Array.of(1), since: Float64Array.of(3),
  });
  const canvas = place.appendChild(document.createElement("canvas"));
  place.style.width = "300px";
  document.body.append(place);
  const drawn = new OwnershipMap(canvas, group), colour = () => drawn.colourOf(1).join();
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let i = 0; i < data.length; i += 4)
    if ([data[i], data[i + 1], data[i + 2]].join() === colour()) found++;
  return found;
}"""


async def test_learners_and_standbys_of_then_are_on_the_map(
    stage: Stage, logged_in: NewContext
) -> None:
    await handed_over(stage)
    epochs = await sync_to_async(_epochs)(stage.group)
    page, said = await opened(logged_in, f"/groups/{stage.group.name}/?epoch={epochs[-1]}")
    script = await page.get_attribute("script[src*='/past.js']", "src")
    assert script
    past, drawing, playing = (
        script.replace("past.js", name) for name in ("past_group.js", "map.js", "play.js")
    )
    assert await page.evaluate(COLOURED, [past, drawing]) > 100
    first, without, again, size, hue = await page.evaluate(REPLICATED, [past, playing])
    assert first == [["b", []], [None, ["a", "b"]], [None, []]]
    assert without == [[None, []]] * 3
    assert (again, size, hue) == (first, 3, 2)
    assert said == []


async def test_two_epochs_stand_beside_each_other(stage: Stage, logged_in: NewContext) -> None:
    await handed_over(stage)
    epochs = await sync_to_async(_epochs)(stage.group)
    base = f"/groups/{stage.group.name}/"
    page, said = await opened(logged_in, f"{base}?epoch={epochs[0]}&vs={epochs[-1]}")
    await page.wait_for_function(PAINTED)
    assert await page.locator("canvas[data-map]").count() == 2
    assert await page.locator("#moved tbody tr").count() > 0
    assert said == []
