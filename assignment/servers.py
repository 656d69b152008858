"""What agents and dashboard say alike of a Redis."""

OLDEST = (6, 2)  # XTRIM MINID, SET PXAT


def shown(url: str) -> str:
    """Its address without user, password and options, which may hold one too."""
    rest = url.partition("://")[2] or url
    return rest.partition("?")[0].rpartition("@")[2]
