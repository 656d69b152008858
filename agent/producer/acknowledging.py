"""A file of the ids of stored events, one in a line: who counts later knows what must have come."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent.producer.library import Acknowledged


@contextmanager
def acknowledging(path: Path | None) -> Iterator[Acknowledged]:
    """Appends to the file, flushed with every batch; None: nothing is written. Raises OSError."""
    if path is None:
        yield lambda ids: None
        return
    with path.open("a") as file:

        def write(ids: Sequence[int]) -> None:
            file.write("".join(f"{event_id}\n" for event_id in ids))
            file.flush()

        yield write
