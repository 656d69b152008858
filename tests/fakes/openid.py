"""A small OpenID provider on 127.0.0.1: discovery, keys, code flow with PKCE, token and userinfo.

It is honest until a test says otherwise: `claims` are added to the id token, `spoil` changes a
token's way of being made, `answers` what an address answers.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, SECRET = "evenkeel", "the-secret-of-the-client"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


def public(key: rsa.RSAPrivateKey, key_id: str) -> dict[str, Any]:
    made: dict[str, Any] = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**made, "kid": key_id, "use": "sig", "alg": "RS256"}


KEY = new_key()  # one for all tests: it takes a while


@dataclass(slots=True)
class OpenIdProvider:
    issuer: str
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "s-1", "groups": ["ops"]})
    claims: dict[str, Any] = field(default_factory=dict)  # of the id token, over the honest ones
    left_out: set[str] = field(default_factory=set)  # claims
    sign: Callable[[dict[str, Any]], str] | None = None
    answers: dict[str, Callable[["Handler"], None]] = field(default_factory=dict)
    description: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # paths
    keys: list[dict[str, Any]] = field(default_factory=lambda: [public(KEY, "k1")])

    def authorize(self, address: str) -> dict[str, str]:
        """What a browser brings back after its person has logged in there."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert asked["response_type"] == "code" and asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256" and "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/keys",
            **self.description,
        }

    def token(self, form: dict[str, str], credentials: str) -> tuple[int, dict[str, Any]]:
        expected = base64.b64encode(f"{CLIENT_ID}:{SECRET}".encode()).decode()
        if credentials != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or asked["redirect_uri"] != form.get("redirect_uri"):
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        return 200, {
            "access_token": "a-t",
            "token_type": "Bearer",
            "id_token": self.id_token(asked),
        }

    def id_token(self, asked: dict[str, str]) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "preferred_username": "olga",
            **self.person,
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if name not in self.left_out}
        if self.sign:
            return self.sign(claims)
        return jwt.encode(claims, KEY, algorithm="RS256", headers={"kid": "k1"})


class Handler(BaseHTTPRequestHandler):
    provider: OpenIdProvider

    def do_GET(self) -> None:
        if self.path.startswith("/authorize?") and "/authorize" not in self.provider.answers:
            self.provider.asked.append("/authorize")
            asked = dict(parse_qsl(urlsplit(self.path).query))
            brought = urlencode(self.provider.authorize(self.path))
            self.say(302, b"", Location=f"{asked['redirect_uri']}?{brought}")
            return
        known: dict[str, Callable[[], Any]] = {
            "/.well-known/openid-configuration": self.provider.discovery,
            "/keys": lambda: {"keys": self.provider.keys},
            "/userinfo": lambda: self.provider.userinfo or self.provider.person,
        }
        self._answer(lambda path: (200, known[path]()))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        credentials = self.headers.get("Authorization", "")
        self._answer(lambda path: self.provider.token(form, credentials))

    def _answer(self, honest: Callable[[str], tuple[int, Any]]) -> None:
        path = urlsplit(self.path).path
        self.provider.asked.append(path)
        if path in self.provider.answers:
            self.provider.answers[path](self)
            return
        status, found = honest(path)
        self.say(status, json.dumps(found).encode())

    def say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def openid_provider() -> Iterator[OpenIdProvider]:
    handler = type("Handler", (Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        handler.provider = OpenIdProvider(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield handler.provider
        server.shutdown()
        thread.join()
