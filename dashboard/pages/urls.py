"""Addresses of people's pages; included from urls.py."""

from django.contrib.auth.views import LoginView
from django.urls import URLPattern, include, path

from dashboard.pages.user_forms import LoginForm
from dashboard.pages.views import (
    account,
    api_tokens,
    approval_rules,
    attention,
    audit,
    charts,
    dead_letters,
    demo,
    epochs,
    evaluations,
    events,
    group,
    help,
    history,
    lists,
    member,
    offset,
    ownership,
    partition,
    past,
    past_tabs,
    pause,
    plans,
    preview,
    producers,
    scale_down,
    search,
    settings,
    single_sign_on,
    status,
    tokens,
    users,
    webhooks,
)

LOGIN = LoginView.as_view(
    template_name="dashboard/login.html",
    redirect_authenticated_user=True,
    authentication_form=LoginForm,
    extra_context={"single_sign_on": single_sign_on.button},
)


def of_then(
    route: str, view: past.View, name: str, then: past.View = past_tabs.only_now
) -> URLPattern:
    """A page of a group, and what it is where the address names a moment."""
    return path(route, past.of_then(view, then), name=name)


of_group = [
    of_then("", group.group_map, "group", epochs.group_map),
    of_then("ownership/", ownership.group_ownership, "group_ownership", past_tabs.ownership),
    path("ownership/picture", ownership.ownership_picture, name="ownership_picture"),
    of_then("members/", group.group_members, "group_members", past.group_members),
    of_then("members/<str:member_id>/", member.member, "member", past_tabs.member),
    of_then("partitions/", group.group_partitions, "group_partitions", past.group_partitions),
    of_then("partitions/<int:number>/", partition.partition, "partition", past_tabs.partition),
    of_then("partitions/<int:number>/events/", events.partition_events, "partition_events"),
    of_then("partitions/<int:number>/offset/", offset.partition_offset, "partition_offset"),
    path("partitions/<int:number>/owner.json", ownership.partition_owner, name="partition_owner"),
    of_then("dead-letters/", dead_letters.dead_letters, "dead_letters"),
    of_then("balance/", charts.group_balance, "group_balance", past_tabs.balance),
    path("balance/charts.json", charts.group_charts, name="group_charts"),
    of_then("history/", history.group_history, "group_history", past_tabs.history),
    path("history/rebalances.csv", history.rebalances_csv, name="rebalances_csv"),
    path("history/ownership.csv", history.ownership_csv, name="ownership_csv"),
    of_then(
        "history/<int:incarnation>/<int:target_epoch>/", history.rebalance_details, "rebalance"
    ),
    path("history/scale-downs.csv", history.scale_downs_csv, name="scale_downs_csv"),
    of_then("scale-down/", scale_down.new_scale_down, "new_scale_down"),
    of_then("scale-down/<int:pk>/", scale_down.scale_down, "scale_down"),
    of_then("attention/", attention.group_attention, "group_attention", past_tabs.attention),
    of_then("settings/", settings.group_settings, "group_settings", past_tabs.settings),
    of_then("pause/", pause.pause, "pause"),
    of_then("rebalance/", preview.rebalance_preview, "rebalance_preview"),
    of_then("plans/", plans.group_plans, "group_plans", past_tabs.plans),
    of_then("plans/<int:pk>/", plans.plan, "plan"),
    of_then("tokens/", tokens.tokens, "tokens"),
    path("map.bin", epochs.map_bytes, name="group_map_bytes"),
    path("changes.json", epochs.epoch_changes, name="epoch_changes"),
    path("snapshot.json", group.group_snapshot, name="group_snapshot"),
]

urlpatterns = [
    path("", lists.overview, name="overview"),
    path("login/", LOGIN, name="login"),
    path("login/single-sign-on/", single_sign_on.begin, name="single_sign_on"),
    path("login/single-sign-on/callback/", single_sign_on.callback, name="single_sign_on_callback"),
    path("logout/", account.LogOut.as_view(), name="logout"),
    path("theme/", account.change_theme, name="theme"),
    path("clock/", account.change_clock, name="clock"),
    path("attention.json", attention.attention_count, name="attention_count"),
    path("evaluations/", evaluations.evaluations, name="evaluations"),
    path("evaluations/<int:pk>/", evaluations.evaluation_report, name="evaluation_report"),
    path("groups/", lists.groups, name="groups"),
    path("groups.csv", lists.groups_csv, name="groups_csv"),
    path("adopt-group/<str:name>/", lists.adopt_group, name="adopt_group"),
    path("new-group/", lists.new_group, name="new_group"),
    path("groups/<str:name>/", include(of_group)),
    path("producers/", producers.producers, name="producers"),
    path("approval-rules/", approval_rules.approval_rules, name="approval_rules"),
    path("webhooks/", webhooks.webhooks, name="webhooks"),
    path("search/", search.search, name="search"),
    path("help/", help.index, name="help"),
    path("help/img/<str:image>", help.image, name="help_image"),
    path("help/<slug:page>/", help.page, name="help_page"),
    path("demo/", demo.demo_page, name="demo"),
    path("status/", status.status, name="status"),
    path("audit/", audit.audit, name="audit"),
    path("audit/verify/", audit.audit_verify, name="audit_verify"),
    path("audit.csv", audit.audit_csv, name="audit_csv"),
    path("audit.jsonl", audit.audit_lines, name="audit_lines"),
    path("users/", users.users, name="users"),
    path("users/<int:pk>/", users.user, name="user"),
    path("password/", users.password, name="password"),
    path("api-tokens/", api_tokens.api_tokens, name="api_tokens"),
]
