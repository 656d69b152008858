"""Messages between an agent and its consumer: one line of JSON each (assignment/wire.py)."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import msgspec

LINE_BYTES_MAX = 65_536  # the longest line is ControlMessage: some settings and a few paths


def line_of(message: Any) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def messages_from(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """Each message, until the other end closes. OSError, or ValueError for what is no message."""
    buffer = b""
    while received := connection.recv(4_096):
        *lines, buffer = (buffer + received).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError(f"{line[:80]!r} is no message")
            yield message
        if len(buffer) > LINE_BYTES_MAX:
            raise ValueError(f"a line longer than {LINE_BYTES_MAX} bytes")
