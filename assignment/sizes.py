"""How much a group may have, by the number of its partitions: members, joins, bytes of reports."""

MEMBERS_MAX = 20_000  # of any group: ten times what is aimed at
MEMBERS_LEAST = 1_000  # that a group of few partitions may have
JOINS_PER_SECOND = 1_000  # of a group: a tenth of a Redis; 10,000 members are there within 12 s
SWEPT_AT_ONCE = 1_000  # grants that one script ends: some hundredths of a second of Redis
MEMBER_BYTES = 2**12  # of a report, whatever it owns
PARTITION_BYTES = 2**11  # owned, replicated, halted and not served at once, each with its reason


def members_max(partitions: int) -> int:
    """Of a group: some more than can own a partition, as they come and go."""
    return min(MEMBERS_MAX, max(MEMBERS_LEAST, 2 * partitions))


def reports_max(partitions: int) -> int:
    """Bytes of all reports of a group together: few have much to say of the same partition."""
    return MEMBER_BYTES * members_max(partitions) + PARTITION_BYTES * partitions
