"""The audit's chain: each entry's HMAC covers its canonical form and the HMAC before it.

The key lies outside the database (DATA/audit_key, or EVENKEEL_AUDIT_KEY), so who writes rows
without it is found by `verify`. One locked row, the head, puts concurrent writers in order. It is
locked by the last statements of a transaction (audit.atomic): nothing slow happens meanwhile, and
as the last lock of every transaction it takes part in no deadlock.
"""

import hashlib
import hmac
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Min

from dashboard.records import anchors
from dashboard.records.stored import CHECKPOINT, HEAD, AuditEntry, AuditHead, canonical_json

FORM = "evenkeel audit 1"  # another canonical form gets another name
COVERED = (
    *("seq", "at", "actor", "address", "action", "object", "group", "reason"),
    *("before", "after", "source", "result", "count"),
)
ROWS_AT_ONCE = 1_000
AT_ONCE = 20_000  # entries, followed in a second or two; the command follows all of them
TRIES = 3  # a checkpoint may come in between

log = logging.getLogger(__name__)


def canonical(entry: Any) -> str:
    values = {name: getattr(entry, name) for name in COVERED}
    values["at"] = entry.at.astimezone(UTC).isoformat(timespec="microseconds")
    if token := getattr(entry, "token", ""):  # older entries had no such field, and keep their HMAC
        values["token"] = token
    return canonical_json(values)


def mac_of(key: str, before: str, entry: Any) -> str:
    """64 hex digits. `before`: those of the entry before it, "" for the first."""
    text = f"{FORM}\n{before}\n{canonical(entry)}"
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


# --- writing --------------------------------------------------------------------------------------


def append(entries: Iterable[AuditEntry]) -> None:
    """Gives them their places and stores them, in the transaction that runs or in one of its own.

    Raises DatabaseError: then none is stored.
    """
    if not (rows := list(entries)):
        return
    with transaction.atomic():
        head = _locked_head()
        link(head, rows)
        AuditEntry.objects.bulk_create(rows, batch_size=ROWS_AT_ONCE)
        head.save(update_fields=["seq", "mac"])


def _locked_head() -> AuditHead:
    head, is_new = AuditHead.objects.select_for_update().get_or_create(pk=HEAD)
    if is_new and (last := AuditEntry.objects.order_by("-seq").first()):
        head.seq, head.mac = last.seq, last.mac  # the head was lost: go on behind what there is
    return head


def link(head: Any, rows: Iterable[Any]) -> None:
    """Gives rows their places behind the head, which goes on to the last of them."""
    for row in rows:
        row.seq = head.seq + 1
        row.mac = mac_of(settings.AUDIT_KEYS[0], head.mac, row)
        head.seq, head.mac = row.seq, row.mac


def checkpoint(entry: AuditEntry, older_than: datetime) -> int:
    """Removes the entries before that moment; `entry` is chained and vouches for what they were.

    How many were removed. The chain is to be verified first: what is gone cannot be.
    """
    with transaction.atomic():
        head = _locked_head()
        found = AuditEntry.objects.filter(seq__lte=head.seq, at__gte=older_than).order_by("seq")
        kept = found.values_list("seq", flat=True).first()
        through = head.seq if kept is None else kept - 1
        last = AuditEntry.objects.filter(seq=through).first()
        if last is None or through <= head.through:
            return 0
        removed = through - head.through
        entry.after = {"through": through, "mac": last.mac, "entries": removed}
        link(head, [entry])
        entry.save()
        head.through, head.through_mac = through, last.mac
        head.save()
        AuditEntry.objects.filter(seq__lte=through).delete()
    return removed


def anchor() -> bool:
    """Notes the head outside of the database. Whether it had gone on. Raises OSError.

    Never over what was noted: a chain that has lost its anchor gets no other one.
    """
    if why := lost():
        log.error("the audit's chain gets no anchor: %s", why)
        return False
    head = AuditHead.objects.filter(pk=HEAD).first()
    return head is not None and anchors.drop(head.seq, head.mac)


def lost() -> str:
    """Why the chain is not the one that was anchored last; "" when it is. Raises DatabaseError.

    Two rows are read; `verify` reads all.
    """
    noted = anchors.newest()  # first: the head goes on
    if noted is None:
        return ""
    mac = AuditEntry.objects.filter(seq=noted.seq).values_list("mac", flat=True).first()
    head = AuditHead.objects.filter(pk=HEAD).first() or AuditHead()
    if head.seq < noted.seq:
        return f"it ends at entry {head.seq}, the anchor of {noted.at} names {noted.seq}"
    if mac is None and head.through == noted.seq:
        mac = head.through_mac
    if mac == noted.mac or (mac is None and noted.seq < head.through):
        return ""
    return f"{_named(noted.seq, noted.seq)} missing" if mac is None else _is_another(noted)


def _is_another(noted: anchors.Anchor) -> str:
    return f"entry {noted.seq} is another one than the anchor of {noted.at} names"


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """`broken` is one sentence that names the first broken link, "" when every link holds."""

    entries: int
    first: int | None
    last: int
    through: int  # removed by checkpoints up to here
    broken: str = ""
    at_seq: int | None = None
    is_whole: bool = True  # False: only the last entries were looked at

    @property
    def ok(self) -> bool:
        return not self.broken

    @property
    def sentence(self) -> str:
        if self.broken:
            return f"The chain is broken: {self.broken}."
        if not self.entries:
            return "The chain holds: it has no entries yet."
        which = "" if self.is_whole else "the last "
        before = f"; {self.through} before them were removed" if self.through else ""
        return (
            f"The chain holds: {which}{self.entries} entries, {self.first} to {self.last}{before}."
        )


Anchored = Mapping[int, Sequence[anchors.Anchor]]  # by the entry that they name


@dataclass(slots=True)
class _Walk:
    """Along the chain; what it has seen so far. `key`: the index in AUDIT_KEYS, which begin with
    the newest, of the one that the last entry was made with.
    """

    seq: int
    mac: str
    anchored: Anchored
    key: int = field(default_factory=lambda: len(settings.AUDIT_KEYS) - 1)
    vouched: set[tuple[int, str]] = field(default_factory=set)
    entries: int = 0
    first: int | None = None

    def step(self, row: AuditEntry) -> str:
        """Why the chain is broken at this entry, or ""."""
        if row.seq != self.seq + 1:
            return f"{_named(self.seq + 1, row.seq - 1)} missing"
        what = f"{row.at:%Y-%m-%d %H:%M:%S}Z, {row.actor}: {row.action} {row.object}"
        key = self._key_of(row)
        if key is None:
            return f"entry {row.seq} was altered, or follows another one than it did ({what})"
        if key > self.key:
            return f"entry {row.seq} was made with a former key, behind one of a later key ({what})"
        if other := _other(self.anchored.get(row.seq, ()), row.mac):
            return _is_another(other)
        if row.action == CHECKPOINT and isinstance(row.after, dict):
            self.vouched.add((int(row.after.get("through", 0)), str(row.after.get("mac", ""))))
        self.seq, self.mac, self.key = row.seq, row.mac, key
        self.entries += 1
        self.first = row.seq if self.first is None else self.first
        return ""

    def _key_of(self, row: AuditEntry) -> int | None:
        """The last entry's first, then later ones: who was given a former key can go on with it,
        but not behind an entry of a later one.
        """
        keys = settings.AUDIT_KEYS
        order: list[int] = [*range(self.key, -1, -1), *range(self.key + 1, len(keys))]
        for index in order:
            made = mac_of(keys[index], self.mac, row)
            if hmac.compare_digest(row.mac.encode(), made.encode()):
                return index
        return None


def _other(noted: Iterable[anchors.Anchor], mac: str) -> anchors.Anchor | None:
    """One that names another entry than this."""
    return next((anchor for anchor in noted if anchor.mac != mac), None)


def _named(first: int, last: int) -> str:
    return f"entry {first} is" if first >= last else f"entries {first} to {last} are"


def verify(last: int | None = None, told: Callable[[int], None] = lambda seq: None) -> Verified:
    """Looks at every entry that is left, or at the last so many, and at the anchors.

    `told` hears the number of each thousandth entry. Writers are not held up meanwhile.
    """
    found = _verify(last, told)
    for _ in range(TRIES - 1):
        head = AuditHead.objects.filter(pk=HEAD).first()
        if found.ok or head is None or head.through == found.through:
            break
        found = _verify(last, told)
    return found


def _verify(last: int | None, told: Callable[[int], None]) -> Verified:
    anchored: dict[int, list[anchors.Anchor]] = {}
    for noted in anchors.read():  # first: the head goes on
        anchored.setdefault(noted.seq, []).append(noted)
    head = AuditHead.objects.filter(pk=HEAD).first() or AuditHead()
    walk, is_whole = _beginning(head, last, anchored)
    broken = ""
    for row in _rows(walk.seq, head.seq):
        if broken := walk.step(row):
            break
        if row.seq % ROWS_AT_ONCE == 0:
            told(row.seq)
    at_seq = walk.seq + 1 if broken else None
    if not broken:
        broken, at_seq = _ending(head, walk, is_whole)
    return Verified(
        entries=walk.entries,
        first=walk.first,
        last=walk.seq,
        through=head.through,
        broken=broken,
        at_seq=at_seq,
        is_whole=is_whole,
    )


def _beginning(head: AuditHead, last: int | None, anchored: Anchored) -> tuple[_Walk, bool]:
    start = head.through if last is None else max(head.through, head.seq - last)
    if start > head.through and (known := AuditEntry.objects.filter(seq=start).first()):
        return _Walk(known.seq, known.mac, anchored), False
    return _Walk(head.through, head.through_mac, anchored), True


def _rows(after: int, to: int) -> Iterator[AuditEntry]:
    """In pieces, so that no statement, and no snapshot of the database, lasts long."""
    while True:
        found = AuditEntry.objects.filter(seq__gt=after, seq__lte=to).order_by("seq")
        rows = list(found[:ROWS_AT_ONCE])
        yield from rows
        if len(rows) < ROWS_AT_ONCE:
            return
        after = rows[-1].seq


def _ending(head: AuditHead, walk: _Walk, is_whole: bool) -> tuple[str, int | None]:
    """What only the end of the walk can tell: a cut tail, rows beyond it, a hole at the front."""
    newest = max(walk.anchored, default=0)
    if walk.seq < max(head.seq, newest):
        until = max(head.seq, newest)
        who = f"the anchor of {walk.anchored[newest][0].at}" if newest == until else "the head"
        return f"{_named(walk.seq + 1, until)} missing: {who} names {until}", walk.seq + 1
    if walk.mac != head.mac:
        return f"the head names another entry {head.seq} than there is", head.seq
    if unchained := _unchained(head):
        return f"{_named(*unchained)} there that nobody chained", unchained[0]
    if is_whole and head.through and (head.through, head.through_mac) not in walk.vouched:
        return f"{_named(1, head.through)} missing, and no checkpoint removed them", 1
    for seq, noted in sorted(walk.anchored.items()):
        is_front = seq == head.through
        if other := _other(noted, head.through_mac if is_front else noted[0].mac):
            return _is_another(other), seq
    return "", None


def _unchained(head: AuditHead) -> tuple[int, int] | None:
    """The first and the last of those where none is: removed by a checkpoint, or not there yet."""
    before = AuditEntry.objects.filter(seq__lte=head.through)
    found = before.aggregate(first=Min("seq"), last=Max("seq"))
    if found["first"] is not None:
        return int(found["first"]), int(found["last"])
    beyond = AuditEntry.objects.aggregate(last=Max("seq"))["last"] or 0
    now = AuditHead.objects.filter(pk=HEAD).first() or head
    return (now.seq + 1, beyond) if beyond > now.seq else None
