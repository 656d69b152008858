"""A Spark folder without zipped Python, so that its workers start sooner.

It lies in the user's cache and is only ever a matter of speed: the zip holds source only, and every
Python process of Spark would compile it anew, three times the work of importing the package.
"""

import hashlib
import tempfile
from pathlib import Path

import pyspark

from agent.spark.java import cache_folder


def spark_home() -> Path:
    """A folder like the package's, without `python`: then the installed package is imported."""
    package = Path(pyspark.__file__).parent
    made = cache_folder() / f"spark-{_digest(str(package))}"
    if not (made / "jars").exists():
        fresh = Path(tempfile.mkdtemp(prefix="spark-", dir=made.parent))
        for entry in package.iterdir():
            if entry.name != "python":
                (fresh / entry.name).symlink_to(entry)
        try:
            fresh.rename(made)
        except OSError:  # another process made it meanwhile
            return made if (made / "jars").exists() else package
    return made


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
