"""The producer library on a real Redis: order, batches, retries, what it refuses."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from agent.producer import FORMS, Gone, Producer, ProducerIdInUse, entries, library, partition_of
from agent.producer import sender as sending
from agent.spark.decode import Decoder
from agent.store.door import RedisDoor, ScriptCall, StoreUnavailable
from assignment.errors import InvalidInput
from assignment.scripts.values import Raw
from assignment.types import Partition
from assignment.wire import StreamKeys
from dashboard.demo.embedded_redis import EmbeddedRedis

DEADLINE_S = 20.0
SCHEMA = pa.schema([("id", pa.int64()), ("key", pa.string()), ("amount", pa.float64())])
Made = Callable[..., Producer]


class FaultyDoor(RedisDoor):
    """Loses replies or requests of appends, as often as asked."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.lose_replies = self.lose_requests = 0

    def run_many(self, calls: Sequence[ScriptCall]) -> list[Raw]:
        if self.lose_requests:
            self.lose_requests -= 1
            raise StoreUnavailable("a lost request")
        answers = super().run_many(calls)
        if self.lose_replies:
            self.lose_replies -= 1
            raise StoreUnavailable("a lost reply")
        return answers


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "TRY_AGAIN_S", 0.01)


@pytest.fixture
def door(redis_url: str) -> Iterator[FaultyDoor]:
    made = FaultyDoor(redis_url)
    yield made
    made.close()


@pytest.fixture
def make(redis_url: str, group_name: str) -> Iterator[Made]:
    made: list[Producer] = []

    def producer(**options: Any) -> Producer:
        options.setdefault("partitions", 3)
        one = Producer(redis_url, group_name, **options)
        made.append(one)
        return one

    yield producer
    for one in made:
        one.sender.give_up_s = 0
        try:
            one.close()
        except Exception:  # the test looked at it
            continue


def raw_entries(door: RedisDoor, stream: str, partitions: int = 3) -> dict[int, list[Raw]]:
    keys = StreamKeys(stream)
    return {n: door.ask("XRANGE", keys.entries(n), "-", "+") for n in range(partitions)}


def events_in(door: RedisDoor, stream: str, partitions: int = 3) -> dict[int, list[dict[str, Any]]]:
    """As Spark's tasks would read them."""
    found = {}
    for number, raw in raw_entries(door, stream, partitions).items():
        decoded = Decoder(SCHEMA).decode(raw)
        assert not decoded.dead
        found[number] = [row for table in decoded.tables for row in table.to_pylist()]
    return found


def event(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "key": f"k{number % 7}", "amount": number / 2, **more}


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.005)


@pytest.mark.parametrize("form", FORMS)
def test_every_event_comes_once_in_order_and_is_acknowledged(
    form: str, make: Made, door: FaultyDoor, group_name: str
) -> None:
    told: list[int] = []
    with make(form=form, acknowledged=told.extend, batch_events=50) as producer:
        for number in range(1_500):
            assert producer.send(f"k{number % 7}", event(number), number)
    found = events_in(door, group_name)
    for number, rows in found.items():
        mine = [event(n) for n in range(1_500) if partition_of(f"k{n % 7}", 3) == number]
        assert rows == mine
    assert sorted(told) == list(range(1_500))


@pytest.mark.parametrize(("form", "most"), [("arrow", 10), ("lines", 10), ("json", 1_500)])
def test_a_form_that_holds_many_events_needs_few_entries(
    form: str, most: int, make: Made, door: FaultyDoor, group_name: str
) -> None:
    with make(form=form, linger_ms=60_000) as producer:
        for number in range(1_500):
            producer.send("one", event(number))
    assert sum(map(len, raw_entries(door, group_name).values())) <= most


def test_few_events_are_sent_after_a_while(make: Made, door: FaultyDoor, group_name: str) -> None:
    told: list[int] = []
    producer = make(acknowledged=told.extend, linger_ms=1)
    producer.send("a", event(1), 1)
    wait_for(lambda: told == [1])
    assert sum(map(len, events_in(door, group_name).values())) == 1


def test_a_large_batch_is_several_entries(
    make: Made, door: FaultyDoor, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "ENTRY_BYTES_MAX", 4_000)
    with make(linger_ms=60_000) as producer:
        for number in range(400):
            producer.send("one", event(number))
    number = partition_of("one", 3)
    assert len(raw_entries(door, group_name)[number]) >= 4
    assert [row["id"] for row in events_in(door, group_name)[number]] == list(range(400))


def test_events_whose_column_has_no_one_type_are_written_as_lines(
    make: Made, door: FaultyDoor, group_name: str
) -> None:
    with make(linger_ms=60_000) as producer:
        producer.send("one", {"id": 1, "amount": 1, "other": "text"})
        producer.send("one", {"id": 2, "amount": 2.5, "other": [1]})
    (entry,) = raw_entries(door, group_name)[partition_of("one", 3)]
    assert entry[1][0] == b"lines"
    rows = events_in(door, group_name)[partition_of("one", 3)]
    assert [(row["id"], row["amount"]) for row in rows] == [(1, 1.0), (2, 2.5)]


@pytest.mark.parametrize("lost", ["lose_replies", "lose_requests"])
def test_a_batch_is_asked_for_again_and_never_doubled(
    lost: str, make: Made, door: FaultyDoor, group_name: str
) -> None:
    producer = make(door=door, batch_events=5)
    for number in range(200):
        setattr(door, lost, 1 if number % 10 == 0 else getattr(door, lost))
        producer.send(f"k{number % 7}", event(number))
    producer.flush()
    ids = [row["id"] for rows in events_in(door, group_name).values() for row in rows]
    assert sorted(ids) == list(range(200))


def test_a_second_start_leaves_out_what_is_stored(
    make: Made, door: FaultyDoor, group_name: str
) -> None:
    with make(producer_id="replay") as first:
        for number in range(100):
            first.send(f"k{number % 7}", event(number), number)
    with make(producer_id="replay") as second:
        assert second.resumes_after() == 99
        sent = [second.send(f"k{number % 7}", event(number), number) for number in range(150)]
    assert sent == [False] * 100 + [True] * 50
    ids = [row["id"] for rows in events_in(door, group_name).values() for row in rows]
    assert sorted(ids) == list(range(150))


def test_a_second_process_under_the_same_id_is_refused(make: Made) -> None:
    first, second = make(producer_id="twin"), make(producer_id="twin")
    first.send("a", event(1), 1)
    first.flush()
    second.send("a", event(1), 1)
    with pytest.raises(ProducerIdInUse, match="twin"):
        second.flush()


def test_a_second_process_is_seen_behind_a_lost_reply_too(make: Made, door: FaultyDoor) -> None:
    first, second = make(producer_id="twin"), make(producer_id="twin", door=door)
    first.send("a", event(1), 1)
    first.flush()
    door.lose_replies = 1
    second.send("a", event(1), 1)
    with pytest.raises(ProducerIdInUse, match="twin"):
        second.flush()


def lose_after(door: FaultyDoor, stream: str, producer: Producer, events: int) -> None:
    """Sends so many with key "a", a batch each, and then takes Redis back to here."""
    number = partition_of("a", 3)
    keys = StreamKeys(stream)
    names = keys.entries(number), keys.producers(number), keys.index(number)
    before = [door.ask("DUMP", name) for name in names]
    for one in range(events):
        producer.send("a", event(one + 100), one + 100)
        producer.flush()
    for name, value in zip(names, before, strict=True):
        door.ask("DEL", name)
        if value:
            door.ask("RESTORE", name, 0, value)


@pytest.mark.parametrize("kept", [0, 2])
def test_a_redis_that_lost_writes_ends_no_producer_and_what_is_gone_is_told(
    kept: int, make: Made, door: FaultyDoor, group_name: str
) -> None:
    told: list[Gone] = []
    producer = make(on_gone=told.append)
    for number in range(kept):
        producer.send("a", event(number), number)
        producer.flush()
    lose_after(door, group_name, producer, 3)
    for number in range(200, 202):
        producer.send("a", event(number), number)
        producer.flush()
    number = partition_of("a", 3)
    partition = Partition(group_name, number)
    assert told == [Gone(partition=partition, events=3, above_id=kept - 1, up_to_id=102)]
    assert producer.gone == 3
    left = [row["id"] for row in events_in(door, group_name)[number]]
    assert left == [*range(kept), 200, 201]


def test_what_is_gone_is_told_though_nothing_more_is_sent(
    make: Made, door: FaultyDoor, group_name: str
) -> None:
    told: list[Gone] = []
    producer = make(on_gone=told.append)
    lose_after(door, group_name, producer, 3)
    producer.close()
    assert [gone.events for gone in told] == [3]


def test_a_second_start_tells_what_an_earlier_process_had_stored(
    make: Made, door: FaultyDoor, group_name: str
) -> None:
    told: list[Gone] = []
    with make(producer_id="replay") as first:
        first.send("a", event(0), 0)
        first.flush()
    second = make(producer_id="replay", on_gone=told.append)
    assert second.send("a", event(0), 0) is False
    door.ask("DEL", StreamKeys(group_name).producers(partition_of("a", 3)))
    second.send("a", event(1), 1)
    second.flush()
    assert [(gone.events, gone.up_to_id) for gone in told] == [(1, 0)]


def test_send_waits_while_the_buffer_is_full(
    make: Made, door: FaultyDoor, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "BUFFER_EVENTS_MAX", 10)
    door.lose_requests = 1_000_000
    sent: list[int] = []
    producer = make(door=door, linger_ms=0)

    def send_all() -> None:
        for number in range(30):
            producer.send("a", event(number))
            sent.append(number)

    thread = threading.Thread(target=send_all, daemon=True)
    thread.start()
    wait_for(lambda: len(sent) == 10 and producer.sender.waiting_since is not None)
    door.lose_requests = 0
    thread.join(DEADLINE_S)
    producer.flush()
    assert [row["id"] for row in events_in(door, group_name)[partition_of("a", 3)]] == sent


def test_a_redis_that_never_comes_ends_the_producer(make: Made, door: FaultyDoor) -> None:
    producer = make(door=door, give_up_s=0.05)
    door.lose_requests = 1_000_000
    producer.send("a", event(1))
    with pytest.raises(StoreUnavailable):
        producer.flush()
    with pytest.raises(StoreUnavailable):
        producer.send("a", event(2))


def test_events_flow_on_when_redis_was_away(own_redis: EmbeddedRedis) -> None:
    told: list[int] = []
    with Producer(own_redis.url, "orders", partitions=1, acknowledged=told.extend) as producer:
        producer.send("a", event(0), 0)
        producer.flush()
        own_redis.stop()
        producer.send("a", event(1), 1)
        wait_for(lambda: producer.sender.waiting_since is not None)
        own_redis.start()
        producer.send("a", event(2), 2)
    door = RedisDoor(own_redis.url)
    assert [row["id"] for row in events_in(door, "orders", 1)[0]] == [0, 1, 2] == told


def test_a_stream_has_one_number_of_partitions(make: Made, redis_url: str, group_name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{group_name}.*is not there"):
        make(partitions=None)
    make(partitions=3)
    with pytest.raises(InvalidInput, match="has 3 partitions, not 4"):
        make(partitions=4)
    assert make(partitions=None).partitions == 3


@pytest.mark.parametrize(
    ("form", "given", "why"),
    [
        ("json", {"a": object()}, "cannot be written as JSON"),
        ("arrow", ["a"], "is a list, not an object"),
        ("fields", {"json": "a"}, "cannot be written as fields"),
        ("fields", {"a": None}, "cannot be written as fields"),
    ],
)
def test_what_is_no_event_is_refused_and_the_rest_goes_on(
    form: str, given: Any, why: str, make: Made
) -> None:
    told: list[int] = []
    with make(form=form, acknowledged=told.extend) as producer:
        with pytest.raises(InvalidInput, match=why):
            producer.send("a", given)
        producer.send("a", event(1), 1)
    assert told == [1]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"form": "xml"}, "form 'xml' is not one of arrow, lines, json, fields"),
        ({"batch_events": 0}, "batch_events 0"),
        ({"producer_id": "a b"}, "producer id 'a b'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], why: str, make: Made) -> None:
    with pytest.raises(InvalidInput, match=why):
        make(**options)


def test_a_closed_producer_takes_nothing(make: Made) -> None:
    producer = make()
    producer.close()
    producer.close()
    with pytest.raises(Exception, match="closed"):
        producer.send("a", event(1))
