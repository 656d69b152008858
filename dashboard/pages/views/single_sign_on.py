"""Log in by the provider: the form that goes there, and the address that people come back to."""

from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from dashboard.records import audit, logins
from dashboard.single_sign_on import people, provider
from dashboard.single_sign_on.asking import Unreachable
from dashboard.single_sign_on.configuration import Configuration
from dashboard.single_sign_on.provider import NotBegun, Refused

BACKEND = f"{people.__name__}.{people.KnownElsewhere.__name__}"
LOCKED = "too many log ins of this address failed: try again in a quarter of an hour"


def button() -> str:
    """What the login page writes on it; "" for none."""
    return settings.SINGLE_SIGN_ON.name if settings.SINGLE_SIGN_ON else ""


@require_POST
def begin(request: HttpRequest) -> HttpResponse:
    """A page that goes on to the provider by itself: a redirect of a form to another site, and from
    there to ever others, is what form-action of our Content-Security-Policy forbids.
    """
    configured, following = _configured(), request.POST.get("next", "")
    if request.user.is_authenticated:
        return HttpResponseRedirect(_safe(request, following))
    if not _is_allowed(request):
        return _failed(request, LOCKED, 429)
    try:
        address = provider.begin(request, following)
    except Unreachable as error:
        return _failed(request, str(error), 503)
    context = {"name": configured.name, "address": address}
    answer = render(request, "dashboard/single_sign_on.html", context)
    provider.keep(request, answer)
    return answer


@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    configured = _configured()
    if not _is_allowed(request):
        return _failed(request, LOCKED, 429)
    answer = _came_back(request, configured)
    provider.keep(request, answer)
    return answer


def _came_back(request: HttpRequest, configured: Configuration) -> HttpResponse:
    try:
        person, following = provider.finish(request)
        by = logins.by_provider(request, f"{person.issuer}, subject {person.subject}")
        user = _admitted(configured, person, by)
    except Unreachable as error:
        return _failed(request, str(error), 503)
    except NotBegun as error:
        return _failed(request, str(error), 400)
    except people.NotLetIn as error:
        return _failed(request, str(error), 403)
    except Refused as error:
        return _refused(request, error)
    login(request, user, backend=BACKEND)
    request.session.set_expiry(people.SESSION)
    return HttpResponseRedirect(_safe(request, following))


def _configured() -> Configuration:
    found: Configuration | None = settings.SINGLE_SIGN_ON
    if found is None:
        raise Http404("There is no single sign-on.")
    return found


def _admitted(configured: Configuration, person: provider.Person, by: audit.By) -> User:
    token = audit.acting.set(lambda: by)
    try:
        return people.admit(configured, person, by)
    finally:
        audit.acting.reset(token)


def _safe(request: HttpRequest, following: str) -> str:
    """Of this site, else the first page."""
    hosts = {request.get_host()}
    if url_has_allowed_host_and_scheme(following, hosts, require_https=request.is_secure()):
        return following
    return resolve_url(settings.LOGIN_REDIRECT_URL)


# --- what fails -----------------------------------------------------------------------------------


def _refused(request: HttpRequest, error: Refused) -> HttpResponse:
    """Somebody brought what is not believed: it counts as a wrong password does."""
    answer = _failed(request, str(error), 403)
    AxesProxyHandler.user_login_failed(
        sender=__name__, credentials=_tries(request), request=request
    )
    return answer


def _failed(request: HttpRequest, why: str, status: int) -> HttpResponse:
    logins.failed_elsewhere(request, why)
    context = {"name": button(), "why": why}
    return render(request, "dashboard/single_sign_on_failed.html", context, status=status)


def _is_allowed(request: HttpRequest) -> bool:
    return bool(AxesProxyHandler.is_allowed(request, _tries(request)))


def _tries(request: HttpRequest) -> dict[str, str]:
    """Nobody is named yet: one address's tries are counted together, and lock out no other one."""
    return {"username": f"{logins.SINGLE_SIGN_ON} of {logins.address_of(request)}"}
