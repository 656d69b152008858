"""What load_check reads of costs: of processes, of connections, of the database."""

import socket
from contextlib import ExitStack

import psutil

from dashboard.evaluation.beside.programs import cpu_of
from dashboard.evaluation.load import costs
from dashboard.evaluation.load.counted import database_bytes
from dashboard.models import Group, Sample

ROWS = 500  # more than a page holds


def test_the_parts_of_a_tree_are_summed_and_what_does_not_run_took_nothing() -> None:
    of = {"web": 0.5, "web-2": 0.5, "worker": 2.0, "beat": 0.5, "producer": 9.0}
    assert costs.summed(of) == {"web": 1.0, "worker": 2.5, "redis": 0.0}


def test_connections_are_those_that_came_in_where_the_process_listens() -> None:
    me = psutil.Process()
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        before = costs.connections_of(me)
        for _ in range(3):
            stack.enter_context(socket.create_connection(server.getsockname()))
            stack.enter_context(server.accept()[0])
        assert costs.connections_of(me) == before + 3


def test_a_process_that_ended_took_nothing_that_can_be_read() -> None:
    gone = psutil.Popen(["true"])
    gone.wait()
    assert cpu_of([gone]) == costs.mib_of([gone]) == 0.0
    assert costs.mib_of([psutil.Process()]) > 1.0


def test_the_database_takes_more_for_every_row(group: Group) -> None:
    before = database_bytes()
    rows = (Sample(group=group, at_ms=n, members=1, owned=1) for n in range(ROWS))
    Sample.objects.bulk_create(rows)
    assert database_bytes() > before
