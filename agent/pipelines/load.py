"""Events for agent/pipelines/counters.py: every key once, then keys by chance at a steady rate.

    python -m agent.pipelines.load --stream S --keys N --rate EVENTS_PER_SECOND [--redis-url URL]
    python -m agent.pipelines.load --stream S --keys N --events N --partitions N

An event is {"id": 0, 1, 2 ..., "key": "key-17", "amount": whole number}. Runs until it is asked to
end; then all that was sent is stored. Started again it goes on with the next id. With --events it
ends after so many in all, sent as fast as they are stored.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.private import keep_private
from agent.producer.entries import FORMS
from agent.producer.library import Producer
from agent.producer.lines import acknowledging
from agent.producer.stopping import Stop, Stopped
from assignment.errors import EvenkeelError

PRODUCER_ID = "load"
SLICE_S = 0.02  # events of so much time are sent together
LINGER_MS = 10
BULK_LINGER_MS = 1_000  # whole entries
AMOUNT_MAX = 100
OK, FAILED = 0, 4


def main(arguments: Sequence[str] | None = None) -> int:
    keep_private()
    options = _parser().parse_args(arguments)
    stop = Stop()
    try:
        with (
            acknowledging(options.acknowledged) as acknowledged,
            Producer(
                options.redis_url,
                options.stream,
                producer_id=PRODUCER_ID,
                form=options.form,
                partitions=options.partitions,
                acknowledged=acknowledged,
                linger_ms=LINGER_MS if options.events is None else BULK_LINGER_MS,
            ) as producer,
        ):
            load = Load(producer, options.keys, random.Random(options.seed))
            try:
                load.every_key(stop.sleep)
                if options.events is not None:
                    load.at_once(options.events, stop.sleep)
                    return OK
                _say(f"{options.keys} keys were sent; {options.rate:g} events a second from now on")
                load.steadily(options.rate, stop.sleep)
            except Stopped:
                producer.flush()
                _say(f"asked to end after {load.next_id} events")
    except (EvenkeelError, OSError) as error:
        _say(str(error))
        return FAILED
    return OK


def key(number: int) -> str:
    return f"key-{number}"


class Load:
    def __init__(self, producer: Producer, keys: int, dice: random.Random) -> None:
        self._producer = producer
        self._keys = keys
        self._dice = dice
        self.next_id = producer.resumes_after() + 1

    def every_key(self, sleep: Callable[[float], None]) -> None:
        """As fast as they are stored; what an earlier start sent is left out."""
        while self.next_id < self._keys:
            if self.next_id % 1_000 == 0:
                sleep(0)  # a place to be stopped at
            self._send(key(self.next_id))
        self._producer.flush()

    def at_once(self, events: int, sleep: Callable[[float], None]) -> None:
        """Until there are so many in all, as fast as they are stored."""
        while self.next_id < events:
            if self.next_id % 1_000 == 0:
                sleep(0)
            self._send(key(self._dice.randrange(self._keys)))
        self._producer.flush()

    def steadily(
        self,
        rate: float,
        sleep: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Until `sleep` raises Stopped. What it is late with is sent at once."""
        began, sent = clock(), 0
        while True:
            sleep(SLICE_S)
            while sent < (clock() - began) * rate:
                self._send(key(self._dice.randrange(self._keys)))
                sent += 1

    def _send(self, name: str) -> None:
        event = {"id": self.next_id, "key": name, "amount": self._dice.randrange(AMOUNT_MAX)}
        self._producer.send(name, event, self.next_id)
        self.next_id += 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agent.pipelines.load")
    parser.add_argument("--stream", required=True)
    parser.add_argument("--keys", type=int, required=True)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--rate", type=float, help="events a second")
    how.add_argument("--events", type=int, help="so many, as fast as they are stored")
    parser.add_argument("--partitions", type=int, help="makes the stream")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--form", choices=FORMS, default=FORMS[0], help="of the entries")
    parser.add_argument("--acknowledged", type=Path, metavar="FILE", help="ids of stored events")
    parser.add_argument(
        "--redis-url", default=os.environ.get("EVENKEEL_REDIS_URL") or os.environ.get("REDIS_URL")
    )
    return parser


def _say(text: str) -> None:
    print(f"load: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
