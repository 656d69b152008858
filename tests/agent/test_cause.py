"""What is noted of an error of Spark's, which carries the Python one as text."""

from agent.spark.failures import cause_of

STREAM_FAILED = """\
[STREAM_FAILED] Query [id = 7, runId = 8] failed: Traceback (most recent call last):
  File "/app/clientserver.py", line 617, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
agent.store.StoreUnavailable: Redis at 127.0.0.1:6379/0 does not answer

=== Streaming Query ===
Identifier: [id = 7, runId = 8]

JVM stacktrace:
org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query
\tat org.apache.spark.sql.execution.streaming.StreamExecution.run(StreamExecution.scala:220)
"""


def test_the_line_below_a_traceback_names_the_cause() -> None:
    cause = "agent.store.StoreUnavailable: Redis at 127.0.0.1:6379/0 does not answer"
    assert cause_of(RuntimeError(STREAM_FAILED)) == cause


def test_the_last_of_a_chain_of_errors_is_named() -> None:
    first = 'Traceback (most recent call last):\n  File "a"\nKeyError: 1\n'
    last = 'Traceback (most recent call last):\n  File "b"\nValueError: no such key\n'
    between = "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert cause_of(RuntimeError(first + between + last)) == "ValueError: no such key"


def test_without_a_traceback_the_first_line_is_taken() -> None:
    assert cause_of(ValueError("no such column: a\n== SQL ==\n...")) == "no such column: a"
    assert cause_of(ValueError()) == "ValueError"
