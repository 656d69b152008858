"""Which address of the API tells what a page shows, and that as a curl command."""

import shlex
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from django.http import HttpRequest

from dashboard.web.problems import API

# Page, by the name of its address -> address below /api/v1; {} as in the page's own.
OF_PAGES: Mapping[str, str] = {
    "overview": "/groups",
    "groups": "/groups",
    "group": "/groups/{name}/partitions",
    "group_ownership": "/groups/{name}/tenures",
    "group_members": "/groups/{name}/members",
    "member": "/groups/{name}/members",
    "group_partitions": "/groups/{name}/partitions",
    "partition": "/groups/{name}/partitions/{number}",
    "partition_events": "/groups/{name}/partitions/{number}/events",
    "partition_offset": "/groups/{name}/offset-jumps",
    "dead_letters": "/groups/{name}/dead-letters",
    "group_balance": "/groups/{name}/rebalances",
    "group_history": "/groups/{name}/rebalances",
    "rebalance": "/groups/{name}/rebalances/{incarnation}/{target_epoch}",
    "group_plans": "/groups/{name}/plans",
    "plan": "/groups/{name}/plans/{pk}",
    "group_attention": "/groups/{name}/attention",
    "group_settings": "/groups/{name}",
    "rebalance_preview": "/groups/{name}",
    "pause": "/groups/{name}/pauses",
    "new_scale_down": "/groups/{name}/members",
    "scale_down": "/groups/{name}/scale-downs/{pk}",
    "tokens": "/groups/{name}/tokens",
    "producers": "/producer-tokens",
    "approval_rules": "/approval-rules",
    "audit": "/audit",
    "status": "/status",
}
HISTORY = "group_history"
OF_KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {  # of History, by its `show=`; with filters
    "ownership": ("/groups/{name}/tenures", ("member", "partition", "from", "to")),
    "scale-downs": ("/groups/{name}/scale-downs", ()),
}
# Filters that pages and API name alike, by the page.
SAME: Mapping[str, tuple[str, ...]] = {
    "groups": ("q", "state"),
    "group_partitions": ("state",),
    "group_ownership": ("member", "from", "to"),
    "group_balance": ("from", "to"),
    "partition_events": ("offset", "time", "before", "after", "edge"),
    "dead_letters": ("partition", "reason", "cursor"),
    "group_history": ("member", "partition", "cause", "actor", "from", "to"),
    "audit": ("actor", "action", "object", "group", "result", "from", "to"),
}
# Pages as of a moment: which parameter says it. Of the others the API tells only what is now.
MOMENTS: Mapping[str, str] = {
    **dict.fromkeys(("group", "group_members", "member", "group_partitions", "partition"), "at"),
    **dict.fromkeys(("group_ownership", "group_balance", HISTORY), "to"),
}
AS_OF = "as_of_ms"  # of a request: the moment that its page shows
TOKEN = "$EVENKEEL_API_TOKEN"


def of_page(request: HttpRequest) -> str:
    """The command that reads what this page shows; "" where the API tells nothing of it."""
    match = request.resolver_match
    if match is None or match.view_name not in OF_PAGES:
        return ""
    page, asked = match.view_name, request.GET
    path, names = OF_PAGES[page], SAME.get(page, ())
    if page == HISTORY:
        path, names = OF_KINDS.get(asked.get("show", ""), (path, names))
    query = {name: asked[name] for name in names if asked.get(name)}
    as_of_ms = vars(request).get(AS_OF)
    if as_of_ms is not None:
        name = MOMENTS.get(page, "")
        if name != "at" and name not in names:
            return ""
        query[name] = str(as_of_ms + (name == "to"))  # `to` is the end of a span
    parts = {name: quote(str(value), safe="") for name, value in match.kwargs.items()}
    return curl(request, path.format(**parts), query)


def curl(request: HttpRequest, path: str, query: Mapping[str, str] | None = None) -> str:
    url = request.build_absolute_uri(API.rstrip("/") + path)
    url += f"?{urlencode(query)}" if query else ""
    return f'curl -H "Authorization: Bearer {TOKEN}" {shlex.quote(url)}'
