"""Django's settings, and the only place of the dashboard that reads the environment.

A wrong value stops the process with one sentence that names it.
"""

import os
import re
import secrets
import sys
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import urlsplit

import dj_database_url
from csp.constants import NONE, SELF, UNSAFE_INLINE
from django.core.exceptions import ImproperlyConfigured

from assignment.errors import InvalidInput
from dashboard.safeguards import (
    LOOPBACK,
    are_others,
    check_cluster,
    check_debug,
    check_encrypted,
    check_reached,
    keep_private,
    read_secret,
)
from dashboard.single_sign_on.configuration import Configuration, roles_of

ROOT = Path(__file__).resolve().parent.parent
METRICS_TOKEN_FORM = re.compile(r"[!-~]{32,}")  # what a header can carry, and nobody guesses
AUDIT_KEY_MIN = 32  # characters, as many as its digest has bytes
PLAIN_SCHEMES = "redis", "rediss", "unix"  # of one Redis
REDIS_SCHEMES = *PLAIN_SCHEMES, "redis+cluster", "rediss+cluster"
WEB_MODULES = {"dashboard.web", "dashboard.asgi"}  # a web process begins with one of them
POOL_TIMEOUT_S = 2.0  # below what an agent waits for an answer; who has none by then says so
BUSY_TIMEOUT_S = 20  # a writer waits for another one; ticks and pages write little and often


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool) -> bool:
    value = text(name, "1" if default else "0").lower()
    if value not in ("0", "1", "no", "yes", "false", "true"):
        raise ImproperlyConfigured(f"{name} is {value!r}, neither 0 nor 1")
    return value in ("1", "yes", "true")


def names(name: str, default: tuple[str, ...]) -> list[str]:
    return [part.strip() for part in text(name, ",".join(default)).split(",") if part.strip()]


def number(name: str, default: int, least: int, most: int) -> int:
    value = text(name, str(default))
    if not value.isdecimal() or not least <= int(value) <= most:
        raise ImproperlyConfigured(
            f"{name} is {value!r}, not a whole number within {least} and {most}"
        )
    return int(value)


def made_once(path: Path) -> str:
    """The secret in a file of DATA; made there once, readable by its owner only."""
    made = path.with_suffix(f".{os.getpid()}")
    if not path.exists():
        with open(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
        try:
            os.link(made, path)  # never replaces: of two processes that start, one wins
        except FileExistsError:
            pass
        finally:
            made.unlink()
    return path.read_text().strip()


def audit_keys(folder: Path) -> list[str]:
    """The first chains the audit's entries; with all of them, former ones too, it is verified."""
    keys = (text("EVENKEEL_AUDIT_KEY") or made_once(folder / "audit_key")).split()
    if short := [key for key in keys if len(key) < AUDIT_KEY_MIN]:
        raise ImproperlyConfigured(
            f"EVENKEEL_AUDIT_KEY: key {keys.index(short[0]) + 1} is shorter than"
            f" {AUDIT_KEY_MIN} characters"
        )
    if not keys:
        raise ImproperlyConfigured(f"the audit's key in {folder / 'audit_key'} is empty")
    return keys


def metrics_token() -> str:
    """ "": there is none."""
    token = text("EVENKEEL_METRICS_TOKEN")
    if token and not METRICS_TOKEN_FORM.fullmatch(token):
        raise ImproperlyConfigured(
            "EVENKEEL_METRICS_TOKEN is not 32 or more printable ASCII characters without spaces"
        )
    return token


def remembered(folder: Path, name: str, default: str) -> str:
    """What a running `up` left in DATA for commands in a second terminal."""
    path = folder / name
    return path.read_text().strip() if path.exists() else default


def redis_address(name: str, default: str = "", schemes: Sequence[str] = REDIS_SCHEMES) -> str:
    """Raises ImproperlyConfigured for what is no address of a Redis."""
    url = text(name, default)
    if url and not is_redis_address(url, schemes):
        *others, last = (f"{scheme}://" for scheme in schemes)
        raise ImproperlyConfigured(
            f"{name} {url!r} is no URL that starts with {', '.join(others)} or {last}"
        )
    return url


def is_redis_address(url: str, schemes: Sequence[str] = REDIS_SCHEMES) -> bool:
    try:
        return urlsplit(url).scheme in schemes
    except ValueError:
        return False


def database(folder: Path, pool: int) -> dict[str, object]:
    """`pool`: most connections to PostgreSQL that are kept and shared; 0: one a thread is kept, as
    suits a worker, whose processes have one thread each, and do one task after the other, and its
    ticker, whose threads are few.
    """
    url = text("DATABASE_URL", f"sqlite:///{folder / 'evenkeel.sqlite3'}")
    try:
        found: dict[str, object] = dict(dj_database_url.parse(url, conn_max_age=600))
    except ValueError as error:
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read: {error}") from error
    if str(found["ENGINE"]).endswith("sqlite3"):
        found["OPTIONS"] = {
            "timeout": BUSY_TIMEOUT_S,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        }
    elif pool and str(found["ENGINE"]).endswith("postgresql"):
        found["CONN_MAX_AGE"], found["CONN_HEALTH_CHECKS"] = 0, True  # each is the pool's again
        kept = {"min_size": 1, "max_size": pool, "timeout": POOL_TIMEOUT_S}
        found["OPTIONS"] = {**found.get("OPTIONS", {}), "pool": kept}  # type: ignore[dict-item]
    return found


def single_sign_on(folder: Path, development: bool) -> Configuration | None:
    """None: nobody logs in by a provider."""
    issuer, roles = text("EVENKEEL_SSO_ISSUER"), "EVENKEEL_SSO_ROLES"
    if not issuer:
        return None
    path = Path(text("EVENKEEL_SSO_SECRET_FILE", str(folder / "sso_client_secret")))
    try:
        return Configuration(
            issuer=issuer,
            client_id=text("EVENKEEL_SSO_CLIENT_ID"),
            secret=read_secret("EVENKEEL_SSO_SECRET_FILE", path),
            name=text("EVENKEEL_SSO_NAME", "single sign-on"),
            claim=text("EVENKEEL_SSO_CLAIM", "groups"),
            scopes=("openid", *names("EVENKEEL_SSO_SCOPES", ("profile",))),
            roles=roles_of(roles, text("EVENKEEL_SSO_ROLES", "{}")),
            development=development,
        )
    except InvalidInput as error:
        raise ImproperlyConfigured(str(error)) from error


def snapshot_urls() -> list[str]:
    urls = names("EVENKEEL_SNAPSHOT_URLS", ())
    for url in urls:
        if "://" not in url and not url.startswith("/"):
            raise ImproperlyConfigured(
                f"EVENKEEL_SNAPSHOT_URLS: {url!r} is neither an absolute path nor a URL"
            )
    return urls


def networks(name: str) -> list[IPv4Network | IPv6Network]:
    try:
        return [ip_network(value) for value in names(name, ())]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}") from error


DATA = keep_private(Path(text("EVENKEEL_DATA", str(ROOT / "data"))))
SECRET_KEY = text("SECRET_KEY") or made_once(DATA / "secret_key")
AUDIT_KEYS = audit_keys(DATA)
AUDIT_ANCHORS = DATA / "audit_anchors"
ALLOWED_HOSTS = names("EVENKEEL_HOSTS", LOOPBACK)
# Only loopback names: one's own machine, plain HTTP. Else cookies travel over HTTPS only.
DEVELOPMENT = flag("EVENKEEL_DEVELOPMENT", not are_others(ALLOWED_HOSTS))
DEVELOPMENT_SAID = bool(text("EVENKEEL_DEVELOPMENT"))
DEBUG = flag("EVENKEEL_DEBUG", False)
REDIS_URL = redis_address("REDIS_URL", remembered(DATA, "redis_url", "redis://127.0.0.1:6379/0"))
# Of Celery's broker and of the channel layer, where they are to be other servers; "": REDIS_URL.
BROKER_URL = redis_address("EVENKEEL_BROKER_URL", schemes=("redis", "rediss"))
CHANNELS_URL = redis_address("EVENKEEL_CHANNELS_URL", schemes=PLAIN_SCHEMES)
check_cluster(REDIS_URL, {"EVENKEEL_BROKER_URL": BROKER_URL, "EVENKEEL_CHANNELS_URL": CHANNELS_URL})
# Prefix of what is not a group's key: Celery's queue and the channel layer.
REDIS_PREFIX = text("EVENKEEL_REDIS_PREFIX", "ek")
# Addresses that commands print for agents; the first is where people look too.
PUBLIC_URL = text("EVENKEEL_URL", remembered(DATA, "public_url", "http://127.0.0.1:8000"))
# Where its groups' snapshots lie, as their agents have it: this machine looks nowhere else.
SNAPSHOT_URLS = snapshot_urls()
# Who may be told by webhooks: hosts; networks of theirs that are not public.
WEBHOOK_HOSTS = names("EVENKEEL_WEBHOOK_HOSTS", ())
WEBHOOK_NETWORKS = networks("EVENKEEL_WEBHOOK_NETWORKS")
METRICS_TOKEN = metrics_token()  # of who reads /metrics
# Of one token. Of ten thousand agents 3,334 beat in a second, a thousand join, and those come again
# that were sent away: 5,500 together, and half as many again after a second in which nothing came.
AGENT_RATE_PER_SECOND = number("EVENKEEL_AGENT_RATE", 8_000, 1, 1_000_000)
HISTORY_DAYS = number("EVENKEEL_HISTORY_DAYS", 0, 0, 36_500)  # kept for; 0: for ever
API_RATE_PER_SECOND = number("EVENKEEL_API_RATE", 50, 1, 1_000_000)  # of one person, in one process

INSTALLED_APPS = [
    "dashboard.apps.DashboardConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth.account",  # the tables alone that single sign-on's need: no address, no form of it
    "allauth.socialaccount",
    "axes",
    "csp",
    "channels",
]
MIDDLEWARE = [
    "dashboard.web.problems.problems",
    "dashboard.live.deadline.one_deadline",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "dashboard.pages.outgoing.outgoing",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "dashboard.pages.middleware.KnownActor",
    "dashboard.web.visitors.known_people",
    "dashboard.pages.gate.Gate",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "dashboard.urls"
ASGI_APPLICATION = "dashboard.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dashboard.pages.views.account.chosen",
                "dashboard.pages.views.demo.link",
                "dashboard.pages.gate.allowed",
                "dashboard.pages.views.attention.counted",
                "dashboard.pages.curl.as_curl",
            ],
            "libraries": {"show": "dashboard.pages.templatetags.show"},
        },
    }
]

# Where a request is answered by a thread of its own, whose connection nobody else would use.
IS_WEB = not WEB_MODULES.isdisjoint(sys.modules)
DATABASE_POOL = number("EVENKEEL_DATABASE_POOL", 20, 8, 1_000)  # of each web process
DATABASES = {"default": database(DATA, DATABASE_POOL if IS_WEB else 0)}
IS_POOLED = "pool" in DATABASES["default"].get("OPTIONS", {})  # type: ignore[operator]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "dashboard.live.primary.ChannelLayer",
        "CONFIG": {"hosts": [CHANNELS_URL or REDIS_URL], "prefix": f"{REDIS_PREFIX}:channels"},
    }
}

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
SINGLE_SIGN_ON = single_sign_on(DATA, DEVELOPMENT)
if SINGLE_SIGN_ON:  # without it sessions that began by it end
    AUTHENTICATION_BACKENDS.append("dashboard.single_sign_on.people.KnownElsewhere")
SOCIALACCOUNT_ONLY = True
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SIGNUP_FIELDS = ["username*"]
SOCIALACCOUNT_ADAPTER = "dashboard.single_sign_on.provider.Hooks"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("MinimumLengthValidator", "CommonPasswordValidator", "NumericPasswordValidator")
]
# Failed log ins of a user name from one address, of a user name, of an address: then a lockout.
LOGIN_LIMITS = (10, 30, 50)
AXES_HANDLER = "dashboard.pages.login_limits.LoginLimits"
AXES_FAILURE_LIMIT = LOGIN_LIMITS[0]
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "username", "ip_address"]
AXES_COOLOFF_TIME = 0.25  # hours
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = (
    False  # who goes on trying keeps nobody out for ever
)
AXES_CLIENT_IP_CALLABLE = "dashboard.pages.login_limits.address"
AXES_RESET_ON_SUCCESS = True
AXES_VERBOSE = False
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "code", "state"]  # and the password
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not DEVELOPMENT
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 0 if DEVELOPMENT else 31_536_000
SECURE_SSL_REDIRECT = not DEVELOPMENT
# The first two are asked for inside, often by bare address; who is sent on from the others has
# shown a token already, so they refuse by themselves.
SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$", "^metrics$", "^api/v1/"]
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # HSTS for subdomains: other services of the domain are not ours to decide
    "security.W021",  # HSTS preload: for the owner of the domain to ask for, and hard to take back
]
BEHIND_PROXY = flag("EVENKEEL_BEHIND_PROXY", False)  # what it says of clients is read in asgi.py
CSRF_TRUSTED_ORIGINS = names("EVENKEEL_ORIGINS", ())
CSRF_FAILURE_VIEW = "dashboard.pages.middleware.csrf_failure"
check_debug(DEBUG, ALLOWED_HOSTS, DEVELOPMENT)
if not DEVELOPMENT or are_others(ALLOWED_HOSTS):
    check_reached(SECRET_KEY, ALLOWED_HOSTS)
if not DEVELOPMENT:
    check_encrypted(CSRF_TRUSTED_ORIGINS, PUBLIC_URL)
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "style-src": [SELF, UNSAFE_INLINE],  # Plotly sets styles; it never needs unsafe-eval
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # nothing to collect: files are served from where they lie
WHITENOISE_AUTOREFRESH = DEBUG
LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "format": "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s",
            "datefmt": "%Y-%m-%dT%H:%M:%S",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": text("EVENKEEL_LOG_LEVEL", "INFO")},
    "loggers": {
        # A wrong Host or too many fields are answered; each would be a traceback in here.
        "django.security": {"level": "CRITICAL"},
        "django.security.csrf": {"level": "WARNING"},
        "axes": {"level": "WARNING"},
        # A line for every tick would bury the decisions.
        "celery.beat": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
    },
}
