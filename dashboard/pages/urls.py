"""Addresses of people's pages; included from urls.py."""

from django.contrib.auth.views import LoginView
from django.urls import include, path

from dashboard.pages.user_forms import LoginForm
from dashboard.pages.views import (
    account,
    api_tokens,
    audit,
    charts,
    demo,
    evaluations,
    group,
    history,
    lists,
    partition,
    producers,
    scale_down,
    settings,
    single_sign_on,
    status,
    tokens,
    users,
)

LOGIN = LoginView.as_view(
    template_name="dashboard/login.html",
    redirect_authenticated_user=True,
    authentication_form=LoginForm,
    extra_context={"single_sign_on": single_sign_on.button},
)
of_group = [
    path("", group.group_map, name="group"),
    path("members/", group.group_members, name="group_members"),
    path("partitions/", group.group_partitions, name="group_partitions"),
    path("partitions/<int:number>/", partition.partition, name="partition"),
    path("balance/", charts.group_balance, name="group_balance"),
    path("balance/charts.json", charts.group_charts, name="group_charts"),
    path("history/", history.group_history, name="group_history"),
    path("history/rebalances.csv", history.rebalances_csv, name="rebalances_csv"),
    path("history/ownership.csv", history.ownership_csv, name="ownership_csv"),
    path(
        "history/<int:incarnation>/<int:target_epoch>/", history.rebalance_details, name="rebalance"
    ),
    path("history/scale-downs.csv", scale_down.scale_downs_csv, name="scale_downs_csv"),
    path("scale-down/", scale_down.new_scale_down, name="new_scale_down"),
    path("scale-down/<int:pk>/", scale_down.scale_down, name="scale_down"),
    path("settings/", settings.group_settings, name="group_settings"),
    path("rebalance/", settings.rebalance_preview, name="rebalance_preview"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("snapshot.json", group.group_snapshot, name="group_snapshot"),
]

urlpatterns = [
    path("", lists.overview, name="overview"),
    path("login/", LOGIN, name="login"),
    path("login/single-sign-on/", single_sign_on.begin, name="single_sign_on"),
    path("login/single-sign-on/callback/", single_sign_on.callback, name="single_sign_on_callback"),
    path("logout/", account.LogOut.as_view(), name="logout"),
    path("theme/", account.change_theme, name="theme"),
    path("evaluations/", evaluations.evaluations, name="evaluations"),
    path("evaluations/<int:pk>/", evaluations.evaluation_report, name="evaluation_report"),
    path("groups/", lists.groups, name="groups"),
    path("groups.csv", lists.groups_csv, name="groups_csv"),
    path("adopt-group/<str:name>/", lists.adopt_group, name="adopt_group"),
    path("new-group/", lists.new_group, name="new_group"),
    path("groups/<str:name>/", include(of_group)),
    path("producers/", producers.producers, name="producers"),
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
