"""How a connection begins: as whom it logs in, and whom it has reached."""

from collections.abc import Callable
from typing import Any

import redis

from assignment.errors import why_not_usable
from assignment.rights import login_of


class TokenLogin(redis.CredentialProvider):
    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def get_credentials(self) -> tuple[str, str]:
        try:
            token = self._token()
        except OSError as error:  # any other error would leave the connection open, without a login
            raise redis.ConnectionError(f"the token cannot be read: {error}") from error
        return login_of(token.strip())


def demand_usable(in_cluster: bool, connection: Any) -> None:
    """Greets the server as the client does, and asks it who it is."""
    connection.on_connect()
    connection.send_command("HELLO")
    try:
        hello = connection.read_response()
    except redis.ResponseError:
        return  # a proxy that does not tell stands before a primary
    if why := why_not_usable(hello, in_cluster):
        raise redis.ConnectionError(why)
