"""What was granted, told and committed so far, kept apart from the store that is judged by it.

Sees every script as it is answered, whoever asked, and raises Broken at the first answer that the
invariants of evaluation.md do not allow. Knows fences, leases and events; no target and no agent.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agent.store.door import ScriptCall
from assignment.scripts import agent_side
from assignment.types import INCARNATION_STEP, Partition
from assignment.wire import StreamKeys
from tests.fakes.values import Id, id_of, t
from tests.simulation.replicas import Values, effects, packed, snapshot_url, unpacked

if TYPE_CHECKING:
    from tests.simulation.world import World


class Broken(AssertionError):
    """An invariant does not hold: the store or who uses it has a bug."""


def demand(fact: bool, otherwise: str) -> None:
    if not fact:
        raise Broken(otherwise)


@dataclass(frozen=True, slots=True)
class Live:
    member: str
    fence: int
    until_ms: int
    unheld: bool = False  # its member counts on it no more, or never heard that it came back


@dataclass(slots=True)
class Book:
    """One partition. `owners`: fence -> member, of every grant there ever was."""

    partition: str
    owners: dict[int, str] = field(default_factory=dict)
    speakers: dict[int, str] = field(default_factory=dict)  # fence -> process that was told it
    highest: int = 0
    last: int = 0  # fence granted last, as far as Redis remembers
    live: Live | None = None
    draining_since_ms: int | None = None
    committed: Id = (0, 0)
    total: int = 0
    values: Values = field(default_factory=dict)
    events: list[Id] = field(default_factory=list)  # every one there ever was
    numbers: dict[Id, int] = field(default_factory=dict)  # of these
    lost: set[Id] = field(default_factory=set)

    def between(self, low: Id, high: Id) -> list[Id]:
        among = self.events[bisect_right(self.events, low) : bisect_right(self.events, high)]
        return [one for one in among if one not in self.lost]

    def live_at(self, now_ms: int) -> Live | None:
        return self.live if self.live and now_ms <= self.live.until_ms else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What Redis had at some time; a wiped one has nothing. Its fields are as the ledger's."""

    books: dict[str, Book] = field(default_factory=dict)
    signs: dict[str, int] = field(default_factory=dict)
    processes: dict[str, str] = field(default_factory=dict)
    away_since_ms: dict[str, int] = field(default_factory=dict)


def spoken_for(args: Sequence[Any]) -> str:
    """The member for which a process speaks."""
    return t(args[0]).partition("@")[0]


def claimed(partitions: Iterable[Any], fences: Iterable[Any]) -> set[tuple[str, int]]:
    return {(t(p), int(fence)) for p, fence in zip(partitions, fences, strict=True)}


STOPPED = ""  # in the place of a process: another one is expected


class Ledger:
    """`claims`: by member, the locks that its last renew named or that it runs under since, without
    those that it asked to be released, whatever the answer was. One whose grant it never heard of
    is not among them, and none that it gave up: when its lease had ended and the clock of Redis was
    set back, or when Redis lost its release.
    """

    def __init__(self, group: "World") -> None:
        self._group, self._server, self._keys = group, group.server, group.keys
        self.books: dict[str, Book] = {}
        self.signs: dict[str, int] = {}  # member -> Redis time of its last sign of life
        self.processes: dict[str, str] = {}  # member -> its process, or STOPPED
        self.away_since_ms: dict[str, int] = {}  # their last sign since which they were not able
        self.ended_early: set[str] = set()  # members whose batch a late `plan` declared ended
        self.events = 0  # appended, ever
        self._target = (0, "")
        self.losses = 0
        self._latest_ms = 0  # of the Redis clock, which may be set back
        self.claims: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)

    def saw(self, call: ScriptCall, answer: Any) -> None:
        self._latest_ms = max(self._latest_ms, self._server.now_ms)
        if see := getattr(self, f"_saw_{call.name}", None):
            see(call.args, answer)

    def book(self, partition: str) -> Book:
        if partition not in self.books:
            self.books[partition] = Book(partition)
        return self.books[partition]

    # --- what Redis may lose

    def kept(self) -> Kept:
        return Kept(
            books={name: replace(book) for name, book in self.books.items()},
            signs=dict(self.signs),
            processes=dict(self.processes),
            away_since_ms=dict(self.away_since_ms),
        )

    def rolled_back(self, kept: Kept) -> None:
        """Redis runs anew with what it had then; fences that were granted since stay granted."""
        self.signs, self.processes = kept.signs, kept.processes
        self.away_since_ms = kept.away_since_ms
        self.losses += 1
        for name, book in self.books.items():
            old = kept.books.get(name, Book(name))
            if old.live and (book.live is None or book.live.fence != old.live.fence):
                old.live = replace(old.live, unheld=True)
            partition = Partition.parse(name)
            key = StreamKeys(partition.stream).entries(partition.number)
            there = {entry_id for entry_id, _ in self._server.entries_after(key, (0, 0))}
            lost = {i for i in book.events if i not in there}
            self.books[name] = replace(
                old, owners=book.owners, speakers=book.speakers, highest=book.highest,
                events=book.events, numbers=book.numbers, lost=lost | book.lost,
            )  # fmt: skip
        self._target = (0, "")

    def lost(self, partition: str, fence: int) -> None:
        """So its member says, by its own clock; in Redis it may live on."""
        book = self.book(partition)
        if book.live and book.live.fence == fence:
            book.live = replace(book.live, unheld=True)

    def appended(self, partition: str, entry_id: Id) -> None:
        """Where grants are possible it is above what was committed, or nobody would plan it. A
        Redis that forgot an id, and whose clock is behind, gives it again.
        """
        book = self.book(partition)
        planned = entry_id > book.committed or not self._grants_are_possible()
        demand(planned, f"{partition}: {entry_id} was appended below {book.committed}")
        book.numbers[entry_id], self.events = self.events, self.events + 1
        book.lost.discard(entry_id)
        at = bisect_left(book.events, entry_id)
        if book.events[at : at + 1] != [entry_id]:
            book.events.insert(at, entry_id)

    def _grants_are_possible(self) -> bool:
        server, set_under = self._server, self._server.hash(self._keys.meta).get(b"run_id", b"")
        return t(set_under) == f"{server.run_id}/{server.replication_id}"

    def destroyed(self) -> int:
        """Events without an effect when nothing is behind any more: Redis lost them, or they came
        before it had its offsets again.
        """
        found = self.events - sum(book.total for book in self.books.values())
        demand(not found or self.losses > 0, f"{found} events have no effect")
        return found

    # --- locks

    def _saw_acquire(self, args: Sequence[Any], answer: Any) -> None:
        if answer[0] != b"ok":
            return
        member, until_ms = spoken_for(args), self._server.now_ms + int(args[1])
        for one in answer[1:]:
            if one[1] == b"granted":
                book, fence = self.book(t(one[0])), int(one[2])
                speaker = book.speakers.setdefault(fence, t(args[0]))
                two = f"{book.partition}: {fence} for two processes, {speaker} and {t(args[0])}"
                demand(speaker == t(args[0]), two)
                self._granted(book, Live(member, fence, until_ms))

    def _granted(self, book: Book, new: Live) -> None:
        where, live = book.partition, book.live_at(self._server.now_ms)
        if live and live.fence != new.fence:
            live = book.live_at(self._latest_ms)  # what ended stays so when the clock is set back
        lowest = new.fence - new.fence % INCARNATION_STEP  # of its incarnation
        if live and live.member == new.member and live.fence < lowest:
            if not live.unheld:
                self._given_up(book)  # its own lock of before the incarnation was raised
            live = None
        demand(new.fence >= book.highest, f"{where}: {new} is below {book.highest}")
        owner = book.owners.setdefault(new.fence, new.member)
        demand(owner == new.member, f"{where}: {new.fence} of {owner} is {new.member}'s too")
        if live is None or live.fence != new.fence:
            demand(live is None, f"{where}: granted to {new} while it is {live}")
            demand(new.fence > book.highest, f"{where}: {new} is not above {book.highest}")
            book.highest = book.last = new.fence
            book.draining_since_ms = None
        book.live = new

    def _saw_read_group(self, args: Sequence[Any], answer: Any) -> None:
        """A tick caps what lies in the future since the clock was set back."""
        if args[0] != "tick" or self._server.now_ms >= self._latest_ms:
            return
        now_ms = self._server.now_ms
        for kept in (self.signs, self.away_since_ms):
            kept.update({member: min(sign_ms, now_ms) for member, sign_ms in kept.items()})
        most = now_ms + self._group.settings.lease_ms
        for book in self.books.values():
            if book.live and book.live.until_ms > most:
                book.live = replace(book.live, until_ms=most)

    def _saw_renew(self, args: Sequence[Any], answer: Any) -> None:
        member, now_ms = spoken_for(args), self._server.now_ms
        self.claims[member] = claimed(args[2::2], args[3::2])
        if answer[0] != b"ok":
            return
        self.signs[member] = now_ms
        renewed = agent_side._renewed(answer).held
        for partition, fence, held in zip(args[2::2], args[3::2], renewed, strict=True):
            if held:
                self._live(partition, member, int(fence), "renewed")
                book = self.book(t(partition))
                book.live = Live(member, int(fence), now_ms + int(args[1]))

    def _live(self, partition: Any, member: str, fence: int, what: str) -> None:
        live = self.book(t(partition)).live_at(self._server.now_ms)
        mine = live is not None and (live.member, live.fence) == (member, fence)
        demand(mine, f"{t(partition)}: {what} by {member} under {fence}, it is {live}")

    def _saw_release(self, args: Sequence[Any], answer: Any) -> None:
        member = t(args[0])
        self.claims[member] -= claimed(args[1::3], args[2::3])
        for partition, fence, done in zip(args[1::3], args[2::3], answer, strict=True):
            if done == 1:
                self._live(partition, member, int(fence), "released")
                self._given_up(self.book(t(partition)))

    def _given_up(self, book: Book) -> None:
        """By its owner itself: then no batch may still hold it."""
        live, book.live = book.live, None
        partition = Partition.parse(book.partition)
        if live is None or not self._group.in_hand(live.member, partition, live.fence):
            return
        since_ms = book.draining_since_ms
        patience_ms = self._group.settings.grace_ms
        waited = since_ms is not None and self._group.now_ms - since_ms >= patience_ms
        demand(
            waited or live.member in self.ended_early,
            f"{partition}: released by {live.member} with a batch in hand (drains: {since_ms})",
        )

    # --- members

    def _saw_join(self, args: Sequence[Any], answer: Any) -> None:
        """Asked twice, or anew: what it holds stays its own. Another process of its instance is a
        new owner, where the one before stopped or gave no sign of life for two heartbeats.
        """
        if answer[0] != b"ok":
            return
        member, process = t(args[0]), t(args[1])
        now_ms, before = self._server.now_ms, self.processes.get(member)
        if before not in (None, STOPPED, process):
            silent_ms = now_ms - self.signs.get(member, 0)
            awaited = silent_ms >= 2 * self._group.settings.heartbeat_ms
            set_back = now_ms < self._latest_ms
            demand(awaited or set_back, f"{member} taken over {silent_ms} ms after a sign of life")
            since_ms = self.away_since_ms.get(member, now_ms - silent_ms)
            self._gone(member)
            self.away_since_ms[member] = since_ms
        self.signs[member], self.processes[member] = now_ms, process
        for book in self.books.values():
            live = book.live_at(self._latest_ms)
            if live and live.member == member:
                lock = self._server.live(self._keys.lock(Partition.parse(book.partition)).encode())
                demand(lock is not None, f"{live} of {book.partition}: taken by its own join")

    def _saw_report(self, args: Sequence[Any], answer: Any) -> None:
        if answer[0] != b"fenced":
            self.signs[t(args[0])] = self._server.now_ms
        if answer[0] == b"ok" and args[6] == "1":
            self.away_since_ms.pop(t(args[0]), None)

    def _saw_evict(self, args: Sequence[Any], answer: Any) -> None:
        if answer != b"ok":
            return
        member, settings = t(args[0]), self._group.settings
        stopped = self.processes.get(member) == STOPPED
        signs = self.away_since_ms if stopped else self.signs
        silent_ms = self._server.now_ms - signs[member]
        set_back = self._server.now_ms < self._latest_ms  # beats of before and after compare wrong
        patience_ms = settings.instance_timeout_ms if stopped else settings.session_timeout_ms
        told = stopped and member in self._group.scale_downs.told
        demand(
            set_back or told or silent_ms > patience_ms,
            f"{member} evicted {silent_ms} ms after a sign of life",
        )
        self._gone(member)

    def _saw_leave(self, args: Sequence[Any], answer: Any) -> None:
        member = t(args[0])
        if answer in (b"ok", b"stopped"):
            since_ms = self.away_since_ms.get(member, self._server.now_ms)
            self._gone(member)
        if answer == b"stopped":
            self.processes[member], self.away_since_ms[member] = STOPPED, since_ms

    def _gone(self, member: str) -> None:
        self.signs.pop(member, None)
        self.processes.pop(member, None)
        self.away_since_ms.pop(member, None)
        for book in self.books.values():
            if book.live and book.live.member == member:
                book.live = None

    # --- batches

    def _saw_set_state(self, args: Sequence[Any], answer: Any) -> None:
        member = t(args[0])
        for i, done in enumerate(answer):
            partition, fence, before, state = args[1 + 4 * i : 5 + 4 * i]
            book, starts = self.book(t(partition)), (before, state) == ("restoring", "running")
            self.claims[member] |= claimed([partition], [fence]) if starts else set()
            if done == 1:
                book.draining_since_ms = self._group.now_ms if state == "revoking" else None
                if starts:
                    self._starts(book, member, int(fence))

    def _starts(self, book: Book, member: str, fence: int) -> None:
        """From what all commits before made of the state. After a loss a replica may be elsewhere,
        also by what an old primary answered: its offset tells, and no batch begins with it.
        """
        replica = self._group.replica_of(member, Partition.parse(book.partition), fence)
        if replica is None or (self.losses and replica.offset != book.committed):
            return
        has = (tuple(replica.offset), replica.total, replica.values)
        should = (tuple(book.committed), book.total, book.values)
        demand(has == should, f"{book.partition}: {member} starts from {has}, not from {should}")

    def _saw_next_batch(self, args: Sequence[Any], answer: Any) -> None:
        if answer[0] != b"ok":
            return
        member = spoken_for(args)
        for partition, fence, offset, total, *_ in answer[2:]:
            book = self.book(t(partition))
            self._live(partition, member, int(fence), "planned")
            told, known = (id_of(t(offset)), int(total)), (book.committed, book.total)
            demand(told == known, f"{t(partition)}: planned from {told}, committed is {known}")

    def _saw_commit(self, args: Sequence[Any], answer: Any) -> None:
        partition, member, fence, low, high = (t(a) for a in args[:5])
        book = self.book(partition)
        if answer[0] == b"already":
            demand(book.committed == id_of(high), f"{partition}: {high} was never committed")
        if answer[0] != b"done":
            return
        demand(int(fence) == book.last, f"{partition}: commit under {fence}, last is {book.last}")
        owner = book.owners.get(int(fence))
        demand(owner == member, f"{partition}: {member} commits under {owner}'s {fence}")
        demand(id_of(low) == book.committed, f"{partition}: {low} is not {book.committed}")
        self._apply(book, id_of(high), args[8])

    def _apply(self, book: Book, high: Id, changes: bytes) -> None:
        """The effects must be those of the events after the ones before, each once, in order."""
        ids = book.between(book.committed, high)
        demand(bool(ids) and ids[-1] == high, f"{book.partition}: no event {high}")
        demand(
            changes == packed(*effects(book.total, book.values, [book.numbers[i] for i in ids])),
            f"{book.partition}: {changes!r} are the effects of other events than {ids}",
        )
        book.total, changed = unpacked(changes)
        book.values = {**book.values, **changed}
        book.committed = high

    # --- the coordinator

    def _saw_set_target(self, args: Sequence[Any], answer: Any) -> None:
        if answer[0] != b"done":
            return
        epoch, run = int(args[2]), t(args[0])
        repeated = (epoch, run) == self._target
        demand(
            repeated or epoch > self._target[0],
            f"target {epoch} by coordinator {run} after {self._target}",
        )
        self._target = (epoch, run)

    def _saw_set_incarnation(self, args: Sequence[Any], answer: Any) -> None:
        if answer[0] == b"done":
            value, books = int(args[0]), self.books.values()
            highest = max((book.highest for book in books), default=0) // INCARNATION_STEP
            demand(value > highest, f"incarnation {value} was granted under before")

    def _saw_restore(self, args: Sequence[Any], answer: Any) -> None:
        """After lost writes: where Redis was moved, what the snapshot holds counts from here on."""
        for partition in args[1::2] if answer[0] == b"done" else ():
            book = self.book(t(partition))
            offset = t(self._server.hash(self._keys.offsets).get(book.partition.encode(), b""))
            files, url = self._group.files.items(), snapshot_url(book.partition, offset, "")
            found = [replica for name, replica in files if name.startswith(url)]
            if found and tuple(found[-1].offset) != book.committed:
                book.committed = tuple(found[-1].offset)
                book.total, book.values = found[-1].total, found[-1].values
