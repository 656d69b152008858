"""Dead letters whose events are read again: as they lie in their entry, else by the text of theirs.

Runs in Spark's tasks. What cannot be read again is a new letter, of the same event.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from agent.spark.decode import RAW_BYTES_MAX, REASON_CHARACTERS_MAX, Decoded, Decoder, RawEntry
from agent.store.events import KeptText
from assignment.scripts.dead_letters import DeadLetter
from assignment.types import Offset

SKIPPED = "skipped by "  # begins the reason of an entry that was not read as events
UNREAD_MAX = 1_000  # new letters of a batch, that one commit can carry
NOT_KEPT = "its entry is not kept any more, and {}"


@dataclass(slots=True)
class Unread:
    """New letters, and the lowest entry that events were asked of."""

    letters: list[DeadLetter]
    lowest: Offset


def read_again(
    decoder: Decoder, kept: Iterable[tuple[str, KeptText, RawEntry | None]], unread: Unread
) -> Iterator[pa.Table]:
    """`kept`: who asked for it, the letter and its entry if that is there."""
    for actor, text, entry in kept:
        letter = _letter(text)
        unread.lowest = min(unread.lowest, Offset.parse(letter.entry_id))
        decoded = _decoded(decoder, letter, entry)
        if isinstance(decoded, str) or len(unread.letters) + len(decoded.dead) > UNREAD_MAX:
            is_text = isinstance(decoded, str)
            why = decoded if is_text else f"more than {UNREAD_MAX:,} of its events cannot be read"
            unread.letters.append(_again(letter, actor, str(why)))
            continue
        of_part = letter.index is not None
        for one in decoded.dead:
            unread.letters.append(_again(letter if of_part else one, actor, one.reason))
        yield from decoded.tables


def _letter(text: KeptText) -> DeadLetter:
    """Kept before letters said so, all of a skipped entry has the index 0."""
    reason, index = text["reason"].decode(errors="replace"), text["index"]
    is_whole = not index or reason.startswith(SKIPPED)
    entry = text["entry"].decode()
    return DeadLetter(reason, entry, None if is_whole else int(index), text["raw"])


def _again(letter: DeadLetter, actor: str, why: str) -> DeadLetter:
    return replace(letter, reason=f"replayed by {actor}: {why}"[:REASON_CHARACTERS_MAX])


def _decoded(decoder: Decoder, letter: DeadLetter, entry: RawEntry | None) -> Decoded | str:
    """Events of the letter alone; or why there are none."""
    one = _within(letter, entry) if entry is not None else None
    if one is None:
        one = _from_text(letter)
    return decoder.decode([one]) if not isinstance(one, str) else one


def _within(letter: DeadLetter, entry: RawEntry) -> RawEntry | None:
    """The letter's part of its entry. None: another one lies there, of a Redis that gave the id
    anew.
    """
    entry_id, fields = entry
    text = b" ".join(fields)
    if letter.index is not None and len(fields) == 2:
        form, text = fields
        if form == b"lines":
            found = text.splitlines()[letter.index : letter.index + 1]
            text, entry = b"".join(found), [entry_id, [b"json", *found]]
            if not found:
                return None
        elif form not in (b"json", b"arrow"):
            text = b" ".join(fields)
    return entry if text[:RAW_BYTES_MAX] == letter.raw else None


def _from_text(letter: DeadLetter) -> RawEntry | str:
    """As an entry of what the letter kept of it."""
    if len(letter.raw) >= RAW_BYTES_MAX:
        return NOT_KEPT.format("its text is too long to be kept whole")
    entry_id, (form, _, text) = letter.entry_id.encode(), letter.raw.partition(b" ")
    if letter.index is None and form in (b"json", b"lines", b"arrow"):
        return [entry_id, [form, text]]
    if letter.index is not None and letter.raw.lstrip().startswith(b"{"):
        return [entry_id, [b"json", letter.raw]]
    return NOT_KEPT.format("its text is no JSON object")


def ids_of(letters: Sequence[tuple[str, str]]) -> list[Offset]:
    """Of letters as they stand in a plan, each with who asked for it."""
    return [Offset.parse(letter) for letter, _ in letters]
