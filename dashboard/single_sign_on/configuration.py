"""What is configured of single sign-on, checked when the process starts. Knows neither Django nor
the environment: settings.py reads that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from assignment.bounds import shown
from assignment.errors import InvalidInput
from dashboard import strict_json
from dashboard.actions.roles import Grant
from dashboard.safeguards import is_private_way

ISSUER_MAX = 200  # characters: as much as is stored of it beside each person
EVERYONE = "*"  # instead of the name of a group: whoever the provider lets log in
MAPPED_MAX = 200  # grants in all, so that nobody gets more of them
FORM = '{"GROUP": "[allow|stage|deny] ROLE [in PATTERN]", "GROUP": ["...", "..."]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """`claim` names the groups; `roles`: a group of the provider -> what its people get;
    `development`: plain HTTP to this machine is allowed. Raises InvalidInput.
    """

    issuer: str
    client_id: str
    secret: str = field(repr=False)
    name: str
    claim: str
    scopes: tuple[str, ...]
    roles: Mapping[str, tuple[Grant, ...]]
    development: bool

    def __post_init__(self) -> None:
        if not self.client_id:
            raise InvalidInput("EVENKEEL_SSO_CLIENT_ID is missing: the provider gives it")
        if not self.secret:
            raise InvalidInput("the client secret of single sign-on is empty")
        if not _is_address(self.issuer) or not self.allows(self.issuer):
            only = "https:// (or http:// on this machine)" if self.development else "https://"
            raise InvalidInput(
                f"EVENKEEL_SSO_ISSUER {shown(self.issuer)} is no address of at most {ISSUER_MAX}"
                f" characters that starts with {only}, without user, query and fragment"
            )

    def allows(self, url: str) -> bool:
        """Whether secrets may travel there: to the provider, or a browser to its pages."""
        return is_private_way(url, loopback=self.development)

    def grants(self, groups: Iterable[str]) -> frozenset[Grant]:
        """What a person in these groups of the provider gets; none: is not let in."""
        named = {*groups, EVERYONE}
        return frozenset(grant for group in named for grant in self.roles.get(group, ()))


def roles_of(name: str, text: str) -> dict[str, tuple[Grant, ...]]:
    """From JSON of FORM. InvalidInput begins with `name`, and names the value."""
    found = strict_json.read(name, text)
    if not isinstance(found, dict) or not found:
        raise InvalidInput(f"{name} is no JSON of the form {FORM}")
    roles = {group: _grants(name, group, said) for group, said in found.items()}
    if sum(map(len, roles.values())) > MAPPED_MAX:
        raise InvalidInput(f"{name} gives more than {MAPPED_MAX} roles")
    return roles


def _grants(name: str, group: str, said: object) -> tuple[Grant, ...]:
    texts = [said] if isinstance(said, str) else said
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
        raise InvalidInput(f"{name}: what group {shown(group)} gives is not of the form {FORM}")
    try:
        return tuple(Grant.read(text) for text in texts)
    except InvalidInput as error:
        raise InvalidInput(f"{name}, group {shown(group)}: {error}") from error


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    extra = parts.query or parts.fragment or parts.username is not None
    return bool(parts.hostname) and not extra and len(url) <= ISSUER_MAX and url.isprintable()
