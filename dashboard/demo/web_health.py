"""Whether a web process lives: what it says when it is asked, and whom it answers besides."""

import http.client
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from dashboard.web import answered

ANSWER_TIMEOUT_S = 5.0
HUNG_S = 20.0  # without a sign of life, while all that it needs is there
BUSY_MAX_S = 300.0  # a herd is in by then; who answers some and people never is half dead


@dataclass(slots=True)
class WebHealth:
    """Of one web process. Who has more to do than it can keeps also this question waiting; it is
    excused while `sign` says that it answers others, for BUSY_MAX_S.
    """

    port: int
    sign: Path
    silent_s: float | None = None  # since when it does not answer the question, monotonic

    def look(self) -> bool:
        said = asked(self.port, "/healthz")
        if said is not None:
            self.silent_s = None
            return said
        now_s = monotonic()
        self.silent_s = now_s if self.silent_s is None else self.silent_s
        return now_s - self.silent_s < BUSY_MAX_S and answered.lately(self.sign, HUNG_S)


def answers(port: int, path: str) -> bool:
    """Whether the page is there and says 200."""
    return bool(asked(port, path))


def asked(port: int, path: str) -> bool | None:
    """Whether the page says 200; False also where nobody listens. None: no answer in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except ConnectionRefusedError:
        return False
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
