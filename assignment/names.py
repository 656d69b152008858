"""Names of groups, streams, members, tokens and partitions: parts of keys, URLs and log lines."""

import re
from functools import lru_cache
from typing import NamedTuple, Self

from assignment.bounds import shown
from assignment.errors import InvalidInput

NAME_MAX = 100  # characters
NAME_PATTERN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{NAME_MAX - 1}}}")
DIGITS_MAX = 16  # of a number of a partition, and of a fence
NUMBER_PATTERN = re.compile(rf"0|[1-9][0-9]{{0,{DIGITS_MAX - 1}}}")
PARSED_KEPT = 4_096  # names of partitions, which are read again and again
PARTITIONS_MAX = 100_000  # one group in the dashboard's dense mode (dashboard.md section 7)


def valid_name(kind: str, name: str) -> str:
    """The name itself; InvalidInput when it could not be part of a key, a URL and a log line."""
    if not NAME_PATTERN.fullmatch(name):
        raise InvalidInput(
            f"{kind} {shown(name)} is not a name: letters, digits, '_', '.', '-', at most"
            f" {NAME_MAX}, first a letter or digit"
        )
    return name


class Partition(NamedTuple):
    """The unit of ownership: one partition of one stream, from 0. Text form: `stream:number`."""

    stream: str
    number: int

    def __str__(self) -> str:
        return f"{self.stream}:{self.number}"

    @classmethod
    @lru_cache(PARSED_KEPT)
    def parse(cls, text: str) -> Self:
        stream, _, number = text.rpartition(":")
        if not NUMBER_PATTERN.fullmatch(number) or not NAME_PATTERN.fullmatch(stream):
            raise InvalidInput(f"partition {shown(text)} is not of the form stream:number")
        return cls(stream, int(number))
