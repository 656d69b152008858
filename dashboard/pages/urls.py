"""Addresses of people's pages; included from urls.py."""

from django.urls import include, path

from dashboard.pages import views

of_group = [
    path("", views.group_map, name="group"),
    path("members/", views.group_members, name="group_members"),
    path("partitions/", views.group_partitions, name="group_partitions"),
    path("partitions/<int:number>/", views.partition, name="partition"),
    path("balance/", views.group_balance, name="group_balance"),
    path("balance/charts.json", views.group_charts, name="group_charts"),
    path("history/", views.group_history, name="group_history"),
    path("history/rebalances.csv", views.rebalances_csv, name="rebalances_csv"),
    path("history/ownership.csv", views.ownership_csv, name="ownership_csv"),
    path(
        "history/<int:incarnation>/<int:target_epoch>/", views.rebalance_details, name="rebalance"
    ),
    path("history/scale-downs.csv", views.scale_downs_csv, name="scale_downs_csv"),
    path("scale-down/", views.new_scale_down, name="new_scale_down"),
    path("scale-down/<int:pk>/", views.scale_down, name="scale_down"),
    path("settings/", views.group_settings, name="group_settings"),
    path("rebalance/", views.rebalance_preview, name="rebalance_preview"),
    path("tokens/", views.tokens, name="tokens"),
    path("snapshot.json", views.group_snapshot, name="group_snapshot"),
]

urlpatterns = [
    path("", views.overview, name="overview"),
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", views.Logout.as_view(), name="logout"),
    path("theme/", views.change_theme, name="theme"),
    path("groups/", views.groups, name="groups"),
    path("groups.csv", views.groups_csv, name="groups_csv"),
    path("new-group/", views.new_group, name="new_group"),
    path("groups/<str:name>/", include(of_group)),
    path("demo/", views.demo_page, name="demo"),
    path("audit/", views.audit, name="audit"),
    path("audit.csv", views.audit_csv, name="audit_csv"),
]
