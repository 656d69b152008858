"""Whether a web process is alive: a probe, and the liveness file where the probe times out."""

import http.client
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from dashboard.web import liveness

ANSWER_TIMEOUT_S = 5.0
HUNG_S = 20.0  # without a sign of life, while all that it needs is there
OVERLOAD_MAX_S = 300.0  # ten thousand agents have joined by then; longer, and it is half dead


@dataclass(slots=True)
class LivenessProbe:
    """Of one web process. One that is overloaded answers the probe too late; it counts as alive for
    OVERLOAD_MAX_S, as long as `file` shows that it answers other requests.
    """

    port: int
    file: Path
    timeouts_since_s: float | None = None  # monotonic; None: the last probe was answered

    def is_alive(self) -> bool:
        answer = probe(self.port, "/healthz")
        if answer is not None:
            self.timeouts_since_s = None
            return answer
        now_s = monotonic()
        if self.timeouts_since_s is None:
            self.timeouts_since_s = now_s
        is_overlong = now_s - self.timeouts_since_s >= OVERLOAD_MAX_S
        return not is_overlong and liveness.is_fresh(self.file, HUNG_S)


def answers(port: int, path: str) -> bool:
    """Whether the page is there and says 200."""
    return bool(probe(port, path))


def probe(port: int, path: str) -> bool | None:
    """True: status 200. False: another status, or nobody listens. None: no answer in time."""
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
