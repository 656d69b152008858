"""A webhook's secret, and what is signed with it (docs/webhooks.md).

The secret follows from the row's salt and SECRET_KEY: it is shown when it is made, stored nowhere,
and another key makes another one.
"""

import hashlib
import hmac
import secrets

from django.utils.crypto import salted_hmac

PREFIX = "ekw_"  # a leaked one is recognised by secret scanners
OF = "dashboard.webhooks"


def new_salt() -> str:
    return secrets.token_hex(16)


def secret_of(salt: str) -> str:
    return PREFIX + salted_hmac(OF, salt, algorithm="sha256").hexdigest()


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """HMAC-SHA-256 over the timestamp, a full stop and the body. `timestamp`: Unix seconds."""
    signed = str(timestamp).encode() + b"." + body
    return f"v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"
