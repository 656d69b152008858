"""The files of replicas in a state folder: which there are, and how one goes for good."""

from pathlib import Path

from agent.state.errors import StateError
from agent.state.partition import LOCK_SUFFIX, SUFFIX, file_of
from assignment.errors import InvalidInput
from assignment.types import Partition


def replicas_in(directory: str | Path, group: str) -> list[Partition]:
    """Partitions with a replica of this boot; those of an earlier one are removed, they may be
    torn.

    Raises StateError.
    """
    folder = Path(directory) / group
    found = []
    try:
        for path in sorted(folder.glob(f"*{SUFFIX}*")) if folder.is_dir() else ():
            partition = _partition_of(path.name)
            if partition is None:
                continue
            if not path.name.startswith(file_of(folder, partition).name):
                path.unlink(missing_ok=True)
            elif path.name.endswith(SUFFIX):
                found.append(partition)
    except OSError as error:
        raise StateError(f"cannot look into {folder}: {error}") from error
    return found


def remove_replica(directory: str | Path, group: str, partition: Partition) -> None:
    """Not to be asked while this process has it open. Raises StateError.

    Another process that has it open goes on with a file without a name: PartitionState.is_there.
    """
    path = file_of(Path(directory) / group, partition)
    try:
        path.unlink(missing_ok=True)
        path.with_name(path.name.removesuffix(SUFFIX) + LOCK_SUFFIX).unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"cannot remove {path}: {error}") from error


def _partition_of(name: str) -> Partition | None:
    """Of `<stream>:<n>.<boot>.lmdb`, or of the file of its locks; None for another's file."""
    stem = name.removesuffix(LOCK_SUFFIX).removesuffix(SUFFIX)
    try:
        return Partition.parse(stem.rpartition(".")[0])
    except InvalidInput:
        return None
