"""A warm handover between two Spark consumers: the new owner goes on from the copy it kept.

Before it the changelogs are emptied, so nothing else leads to the state: whoever restored anything
again would fail, and whoever began from nothing would not come to what pandas says.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.state.partition import PartitionState
from agent.store.group import GroupStore
from assignment.types import Partition
from assignment.wire import ChangelogEntry, unpack_ids
from dashboard.demo.options import GROUP
from dashboard.demo.parts import Parts
from dashboard.evaluation import agent_logs, flights_check, result
from dashboard.evaluation.system import Run, own_run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
FIRST, ALL = 2_000, 3_000  # flights before the handover, and in all
PARTITIONS = [Partition(GROUP, number) for number in range(4)]
COPIED_S = 60.0
LEFT_S = 120.0


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with own_run(print, 1, consumers=2, standbys=1, partitions=4, speed=0.0) as run:
        run.demo.start_dashboard()
        run.demo.start_consumers()
        yield run


def replay(run: Run, flights: int) -> None:
    """The first so many, without those that were sent before."""
    parts = Parts(replace(run.demo.options, flights=flights), run.demo.parts.redis_url)
    run.demo.tree.start(parts.producer("--acknowledged", str(run.acknowledged)))
    run.wait_processed(flights)


def changelogs(store: GroupStore) -> dict[Partition, list[ChangelogEntry]]:
    return {p: list(store.read_changelog(p, "0-0", 10_000).entries) for p in PARTITIONS}


def is_replicated(run: Run, store: GroupStore, folder: Path, partitions: list[Partition]) -> bool:
    committed = store.committed(partitions)
    for partition in partitions:
        replica = PartitionState.open(folder, GROUP, partition)
        try:
            if replica.offset != committed[partition]:
                return False
        finally:
            replica.close()
    return True


def test_new_owner_goes_on_from_its_replica(run: Run) -> None:
    store = GroupStore.connect(run.demo.parts.redis_url, GROUP)
    leaving, staying = run.demo.consumers
    replay(run, FIRST)
    member = run.member_of(leaving)
    had = [Partition.parse(name) for name in run.demo.status()["members"][member]["owned"]]
    assert len(had) == 2
    folder = run.demo.parts.state_folder(staying.name) / "agent-0"
    run.wait(
        lambda: is_replicated(run, store, folder, had), COPIED_S, "the standby did not keep up"
    )
    before = changelogs(store)
    for partition in PARTITIONS:
        assert store.read_snapshots(partition) == ()
        store.door.ask("XTRIM", store.keys.changelog(partition), "MAXLEN", 0)

    told = run.command("scale_down", GROUP, "--members", member)
    assert told["leave"] == [member]
    run.wait(lambda: run.demo.consumers == [staying], LEFT_S, "the member did not leave")
    assert leaving.exit_code() == 0
    run.demo.wait_settled()
    taken = agent_logs.takeovers([staying.log])
    assert {one.partition for one in taken if one.learned} >= {str(p) for p in had}
    assert "restore failed" not in staying.log.read_text()

    replay(run, ALL)
    after = changelogs(store)
    assert all(after[partition] for partition in had), "the new owner committed"
    commits = {p: [*before[p], *after[p]] for p in PARTITIONS}
    for entries in commits.values():
        ends = [entry.to_offset for entry in entries]
        assert [entry.from_offset for entry in entries[1:]] == ends[:-1]
    ids = [i for entries in commits.values() for e in entries for i in unpack_ids(e.ids)]
    assert sorted(ids) == list(range(ALL))
    assert flights_check.compare(result.merged(commits), flights_check.expected(ALL)) == []
    store.close()
