"""What docs/settings.md says, made of what is declared. To write it:
python -m dashboard.pages.settings_page > docs/settings.md
"""

from collections.abc import Iterator
from typing import Any

from assignment.setting import Choice, Count, Duration, Flag, Setting, Size
from assignment.settings import DEFAULTS, SETTINGS
from dashboard.pages import amounts

HEAD = """# Settings of a group

On the page Settings of the group, by `PATCH /api/v1/groups/{name}/settings`, and as flags of
`create_group`: `lease_ms` is `--lease-ms`, in milliseconds there as in the API. A change is told
to the agents with their next beat and is in the audit, with before and after. Together: the lease
is at least three times renew, and the session timeout at most the lease.

| Setting | Default | Bounds | Used by | What it is for |
|---|---|---|---|---|"""
OF_STATE = "In a stateful group: "


def lines() -> Iterator[str]:
    yield from HEAD.splitlines()
    for name, setting in SETTINGS.items():
        users = ", ".join(str(user.name).lower() for user in setting.users)
        cells = f"`{name}`", _default(name, setting), _bounds(setting), users, _help(name, setting)
        yield f"| {' | '.join(cells)} |"


def _help(name: str, setting: Setting) -> str:
    is_said = setting.of_state and name != "stateful"
    return f"{OF_STATE if is_said else ''}{setting.label}. {setting.help}"


def _default(name: str, setting: Setting) -> str:
    return "" if setting.once else _said(setting, DEFAULTS[name])


def _bounds(setting: Setting) -> str:
    match setting:
        case Count():
            return f"{_said(setting, setting.least)} to {_said(setting, setting.most)}"
        case Choice():
            return ", ".join(setting.options)
        case Flag():
            return "true, false"
    return ""


def _said(setting: Setting, value: Any) -> str:
    match setting, value:
        case Duration(), int():
            return amounts.exact_span(value * setting.unit_ms)
        case Size(), int():
            return amounts.exact_size(value)
        case Count(), int():
            return f"{value:,}"
        case Flag(), _:
            return str(value).lower()
    return str(value or "none")


if __name__ == "__main__":
    print("\n".join(lines()))
