"""allauth's code flow with state and PKCE, made stricter, up to the one thing that we want of it:
who somebody is. Its sign-up, e-mail addresses, messages and pages are not used.

Stricter: the nonce is checked, the signature always, with the provider's public keys alone; nothing
in the address of a request changes what the provider is asked for.
"""

import base64
import hashlib
import hmac
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import jwt
import requests
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from assignment.bounds import printable, shown
from dashboard.single_sign_on.asking import Session, Unreachable, documents, read_object
from dashboard.single_sign_on.configuration import Configuration

BEGIN, CALLBACK = "single_sign_on", "single_sign_on_callback"
WELL_KNOWN = "/.well-known/openid-configuration"  # OpenID Connect Discovery, section 4
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
# With public keys alone: an HMAC's key would be the secret, and "none" is no signature.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
CLAIMS = ["iss", "sub", "aud", "exp", "iat"]  # OpenID Connect Core, section 2
LEEWAY_S = 60  # clocks of two machines
BEGUN_S = 600  # as long as allauth keeps a state
COOKIE = "single_sign_on"
COOKIE_MAX = 2_000  # characters: a few log ins, and far from the 4,096 of browsers
FOLLOWING_MAX = 500  # characters of it
KEYS_MAX = 4  # of one id
KEYS_AGAIN_S = 30.0  # an unknown key may be a new one: asked for so often at most
SUBJECT_MAX = 191  # as many characters as allauth stores; Core allows 255
GROUPS_MAX = 10_000
NAMES = ("preferred_username", "email", "name")  # claims that a user may be called by

log = logging.getLogger(__name__)


class Refused(Exception):
    """What was brought is not believed, or the provider said no. A sentence."""


class NotBegun(Refused):
    """This browser began no such log in, or too long ago: the provider was asked nothing."""


class Forged(OAuth2Error):  # type: ignore[misc]
    """What came with the id token is not what this log in is to bring. A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Of whom the provider said so now; `subject` is what names a person for good (Core, 5.7)."""

    issuer: str
    subject: str
    name: str
    groups: frozenset[str]


def begin(request: HttpRequest, following: str) -> str:
    """The provider's address to go to; the state stays with this browser (`keep`). `following`:
    where to go afterwards. Raises Unreachable.
    """
    provider, following = _provider(request), following[:FOLLOWING_MAX]
    with _cookie_for_session(request):
        answer = provider.redirect(request, AuthProcess.LOGIN, next_url=following)
    return str(answer["Location"])


def finish(request: HttpRequest) -> tuple[Person, str]:
    """Who came back from the provider, and what `begin` was told as following. Raises Refused,
    NotBegun, Unreachable.
    """
    try:
        with _cookie_for_session(request):
            OAuth2CallbackView.adapter_view(Adapter(request))(request)
    except Found as found:
        return found.person, found.following
    raise Refused("the log in came to no end")


@contextmanager
def _cookie_for_session(request: HttpRequest) -> Iterator[None]:
    """Where allauth keeps state and PKCE's verifier: with the browser, signed. A stranger leaves
    nothing in our database by this.
    """
    own, begun = request.session, request.COOKIES.get(COOKIE, "")
    request.session = SessionStore(begun if len(begun) <= COOKIE_MAX else None)
    try:
        yield
    finally:
        request.session.save()
        vars(request)[COOKIE] = request.session.session_key
        request.session = own


def keep(request: HttpRequest, response: HttpResponse) -> None:
    """What this browser has begun, without what came to its end."""
    if begun := vars(request).get(COOKIE):
        secure = settings.SESSION_COOKIE_SECURE
        options: Any = {"secure": secure, "httponly": True, "samesite": "Lax"}
        response.set_cookie(COOKIE, begun, max_age=BEGUN_S, path=reverse(BEGIN), **options)


def _configured() -> Configuration:
    found: Configuration | None = settings.SINGLE_SIGN_ON
    assert found  # its addresses are not there otherwise
    return found


def _provider(request: HttpRequest) -> "Provider":
    return Provider(request, _app(_configured()))


def _app(configured: Configuration) -> SocialApp:
    """Never stored: the environment alone says which provider there is."""
    return SocialApp(
        provider=OpenIDConnectProvider.id,
        provider_id=configured.issuer,
        name=configured.name,
        client_id=configured.client_id,
        secret=configured.secret,
        settings={"oauth_pkce_enabled": True, "scope": list(configured.scopes)},
    )


# --- allauth's parts ------------------------------------------------------------------------------


class Found(Exception):
    """Ends allauth's flow where it would go on to its own sign-up and log in."""

    def __init__(self, person: Person, following: str) -> None:
        super().__init__(person)
        self.person, self.following = person, following


class Hooks(DefaultSocialAccountAdapter):  # type: ignore[misc]
    def get_requests_session(self) -> Session:
        return Session(_configured())

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> NoReturn:
        raise Found(sociallogin.person, sociallogin.state.get("next", ""))

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: str | None = None,
        exception: Exception | None = None,
        extra_context: dict[str, Any] | None = None,
    ) -> NoReturn:
        """Instead of allauth's page."""
        if exception is not None:
            log.warning("single sign-on: %s", shown(printable(str(exception))))
            if isinstance(exception, Forged):
                raise Refused(str(exception)) from exception
            raise Refused(f"{provider.name} did not confirm this log in") from exception
        if "state" not in (extra_context or {}):
            raise NotBegun("this log in did not begin in this browser, or too long ago")
        if error == AuthError.CANCELLED:
            raise Refused(f"it was refused or cancelled at {provider.name}")
        said = shown(printable(request.GET.get("error", "")))
        raise Refused(f"{provider.name} answered with the error {said}")


class Provider(OpenIDConnectProvider):  # type: ignore[misc]
    def get_oauth2_adapter(self, request: HttpRequest) -> "Adapter":
        return Adapter(request)

    def get_pkce_params(self) -> dict[str, Any]:
        """With the nonce, a digest of the verifier, which stays with the browser (Core, 15.5.2)."""
        found: dict[str, Any] = super().get_pkce_params()
        return {**found, "nonce": nonce_of(found["code_verifier"])}


class Adapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    def __init__(self, request: HttpRequest) -> None:
        self.configured = _configured()
        self.nonce = ""
        super().__init__(request, self.configured.issuer)

    def get_provider(self) -> Provider:
        return _provider(self.request)

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        return request.build_absolute_uri(reverse(CALLBACK))

    @property
    def openid_config(self) -> dict[str, Any]:
        """The provider's description. Raises Unreachable, also for one that cannot be used."""
        url = self.configured.issuer.rstrip("/") + WELL_KNOWN
        found = documents.get(self.configured, url)
        if found.get("issuer") != self.configured.issuer:
            said = shown(str(found.get("issuer")))
            raise Unreachable(f"{url} is of another issuer than EVENKEEL_SSO_ISSUER: {said}")
        for name in ENDPOINTS:
            if not isinstance(found.get(name), str) or not self.configured.allows(found[name]):
                raise Unreachable(f"{url} has no {name} that may be used")
        return found

    @property
    def basic_auth(self) -> bool:
        """In the header unless only the form is offered: the default of Discovery, section 3."""
        offered = self.openid_config.get("token_endpoint_auth_methods_supported")
        return not isinstance(offered, list) or "client_secret_post" not in offered

    def get_access_token_data(
        self, request: HttpRequest, app: SocialApp, client: Any, pkce_code_verifier: Any = None
    ) -> dict[str, Any]:
        """Raises OAuth2Error: the code is not taken; Unreachable."""
        self.nonce = nonce_of(pkce_code_verifier or "")
        try:
            found = super().get_access_token_data(request, app, client, pkce_code_verifier)
        except (
            KeyError,
            ValueError,
            TypeError,
            RecursionError,
            requests.RequestException,
        ) as error:
            raise Unreachable(f"what {app.name} answered to the code cannot be read") from error
        if not isinstance(found, dict):
            raise OAuth2Error("the answer to the code is no JSON object")
        return found

    def parse_token(self, data: dict[str, Any]) -> SocialToken:
        """Kept no longer than this request."""
        return SocialToken(token=str(data["access_token"]))

    def complete_login(
        self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs: Any
    ) -> SocialLogin:
        claims = self._claims(kwargs["response"].get("id_token"))
        if self.configured.claim not in claims and self.openid_config.get("userinfo_endpoint"):
            claims = {**self._said_of(claims["sub"], token.token), **claims}
        account = SocialAccount(provider=self.configured.issuer, uid=claims["sub"], extra_data={})
        found = SocialLogin(user=User(), account=account)
        found.person = _person(self.configured, claims)
        return found

    def _claims(self, id_token: Any) -> dict[str, Any]:
        """Of the id token, checked as Core, section 3.1.3.7, says. Raises Forged, Unreachable."""
        if not isinstance(id_token, str):
            raise Forged(f"{self.configured.name} gave no id token")
        try:
            header = jwt.get_unverified_header(id_token)
            algorithm = header.get("alg")
            if algorithm not in ALGORITHMS:
                raise Forged(f"the id token has the signature {shown(str(algorithm))}")
            claims = jwt.decode(
                id_token,
                self._key(header.get("kid"), algorithm),
                algorithms=[algorithm],
                issuer=self.configured.issuer,
                audience=self.configured.client_id,
                leeway=LEEWAY_S,
                options={"require": CLAIMS},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise Forged(f"the id token is not valid: {_word(error)}") from error
        if not hmac.compare_digest(str(claims.get("nonce")).encode(), self.nonce.encode()):
            raise Forged("the id token is of another log in: its nonce is wrong")
        others = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if (others or "azp" in claims) and claims.get("azp") != self.configured.client_id:
            raise Forged("the id token was given to somebody else")
        if not 0 < len(claims["sub"]) <= SUBJECT_MAX or not claims["sub"].isprintable():
            raise Forged(f"the subject of the id token is not 1 to {SUBJECT_MAX} characters")
        return claims

    def _key(self, key_id: Any, algorithm: str) -> Any:
        """Raises jwt.PyJWTError, Unreachable."""
        url = self.openid_config["jwks_uri"]
        found = _named(documents.get(self.configured, url), key_id)
        found = found or _named(documents.get(self.configured, url, younger_s=KEYS_AGAIN_S), key_id)
        for key in found[:KEYS_MAX]:
            if key.get("alg", algorithm) == algorithm:
                return jwt.PyJWK(key, algorithm).key
        raise jwt.InvalidKeyError("no key of the provider")

    def _said_of(self, subject: str, access_token: str) -> dict[str, Any]:
        """What userinfo says of this very person (Core, 5.3.2). Raises Forged, Unreachable."""
        headers = {"Authorization": f"Bearer {access_token}"}
        with Session(self.configured) as session:
            found = read_object(session.get(str(self.profile_url), headers=headers))
        if found.get("sub") != subject:
            raise Forged("what the provider says of the person is of somebody else")
        return found


# --- parts ----------------------------------------------------------------------------------------


def nonce_of(verifier: str) -> str:
    digest = hashlib.sha256(b"nonce " + verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _named(keys: dict[str, Any], key_id: Any) -> list[dict[str, Any]]:
    """Without an id those that there are: the provider has one, then."""
    listed = keys.get("keys")
    every = [key for key in listed if isinstance(key, dict)] if isinstance(listed, list) else []
    return [key for key in every if key_id is None or key.get("kid") == key_id]


def _word(error: Exception) -> str:
    return shown(str(error)) if isinstance(error, jwt.PyJWTError) else type(error).__name__


def _person(configured: Configuration, claims: dict[str, Any]) -> Person:
    said = claims.get(configured.claim)
    groups = [said] if isinstance(said, str) else said if isinstance(said, list) else []
    names = [claims[name] for name in NAMES if isinstance(claims.get(name), str)]
    return Person(
        issuer=configured.issuer,
        subject=claims["sub"],
        name=names[0] if names else claims["sub"],
        groups=frozenset(g for g in groups[:GROUPS_MAX] if isinstance(g, str)),
    )
