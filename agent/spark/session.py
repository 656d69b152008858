"""The Spark session of a consumer: small batches, few keys to the driver, nothing kept that is not
needed. Settings can be overridden by EVENKEEL_SPARK_MASTER and EVENKEEL_SPARK_CONF (JSON).
"""

import fcntl
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from py4j.java_gateway import java_import
from pyspark.sql import SparkSession

from agent.spark.java import java_home, spark_home
from assignment.errors import InvalidInput

MASTER_VARIABLE = "EVENKEEL_SPARK_MASTER"
CONF_VARIABLE = "EVENKEEL_SPARK_CONF"
CHANGES_BYTES_MAX = "256m"  # changed keys of a batch that may come to the driver
CONF = {
    # Two cores, a few hundred MB, and rows that do not live long.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:NewRatio=1 -Xss2m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "600m",
    "spark.driver.maxResultSize": CHANGES_BYTES_MAX,
    "spark.sql.adaptive.enabled": "false",  # costs more than it saves in batches this small
    # What events are joined with is small, and is read anew for every batch: by one task.
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.pollingDelay": "5ms",  # the planner waits, not Spark
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    "spark.locality.wait": "0",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.python.worker.reuse": "true",
    # Else every call on a DataFrame or a column is some ten calls to Java, to note where it stands.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Nobody looks at Spark's own pages, and what they would show fills the heap.
    "spark.sql.ui.retainedExecutions": "50",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.explainMode": "simple",  # a text of every batch's plan that nobody reads
    "spark.buffer.pageSize": "1m",  # each broadcast and each hash map takes one at least
}
# By pyspark, which searches all archives for it in three packages each time unless it is named.
OFTEN_ASKED_FOR = "org.apache.spark.api.python.PythonUtils"
SHARED_MEMORY = Path("/dev/shm")
FOLDER_PREFIX, HELD = "evenkeel-run-", "held"
SHARED_MEMORY_FREE_MIN = 256 * 2**20


def make_session(name: str, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Starts Spark, or raises JavaUnsuitable, InvalidInput, or what Spark raises."""
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of each call from Java
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(_import_paths())
    master = os.environ.get(MASTER_VARIABLE, f"local[{os.cpu_count() or 1}]")
    builder = SparkSession.builder.appName(f"evenkeel-{name}").master(master)
    for key, value in {**CONF, **(conf or {}), **_conf_from_environment()}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    java_import(session.sparkContext._jvm, OFTEN_ASKED_FOR)
    cores = str(session.sparkContext.defaultParallelism)
    session.conf.set("spark.sql.shuffle.partitions", cores)
    return session


def fresh_folder() -> Path:
    """For a checkpoint and `Shared`: in memory where there is room; not kept.

    Locked for as long as this process lives, so that the next one can remove what was left by one
    that was killed.
    """
    in_memory = SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK)
    if in_memory:
        free = os.statvfs(SHARED_MEMORY)
        in_memory = free.f_bavail * free.f_frsize >= SHARED_MEMORY_FREE_MIN
    parent = SHARED_MEMORY if in_memory else Path(tempfile.gettempdir())
    _remove_left_behind(parent)
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
    held = os.open(folder / HELD, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    return folder


def _remove_left_behind(parent: Path) -> None:
    for folder in parent.glob(f"{FOLDER_PREFIX}*"):
        try:
            held = os.open(folder / HELD, os.O_RDWR)
        except OSError:
            continue  # another user's, or not locked yet
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(held)


def _conf_from_environment() -> dict[str, str]:
    text = os.environ.get(CONF_VARIABLE, "{}")
    try:
        values = json.loads(text)
        return {str(key): str(value) for key, value in values.items()}
    except (ValueError, AttributeError) as error:
        raise InvalidInput(f"{CONF_VARIABLE} is not a JSON object: {text!r}") from error


def _import_paths() -> list[str]:
    """What this process can import, its workers must be able to import too."""
    paths = [os.path.abspath(path or os.getcwd()) for path in sys.path]
    return list(dict.fromkeys(path for path in paths if "python3" not in path or "site-" in path))
