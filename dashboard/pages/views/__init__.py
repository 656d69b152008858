"""People's pages: what was asked, queries, a template."""

from dashboard.pages.views.account import Login, Logout, change_theme
from dashboard.pages.views.audit import audit, audit_csv
from dashboard.pages.views.charts import group_balance, group_charts
from dashboard.pages.views.demo import demo_page
from dashboard.pages.views.group import group_map, group_members, group_partitions, group_snapshot
from dashboard.pages.views.history import (
    group_history,
    ownership_csv,
    rebalance_details,
    rebalances_csv,
)
from dashboard.pages.views.lists import groups, groups_csv, new_group, overview
from dashboard.pages.views.partition import partition
from dashboard.pages.views.scale_down import new_scale_down, scale_down, scale_downs_csv
from dashboard.pages.views.settings import group_settings, rebalance_preview
from dashboard.pages.views.tokens import tokens

__all__ = [
    "Login",
    "Logout",
    "audit",
    "audit_csv",
    "change_theme",
    "demo_page",
    "group_balance",
    "group_charts",
    "group_history",
    "group_map",
    "group_members",
    "group_partitions",
    "group_settings",
    "group_snapshot",
    "groups",
    "groups_csv",
    "new_group",
    "new_scale_down",
    "overview",
    "ownership_csv",
    "partition",
    "rebalance_details",
    "rebalance_preview",
    "rebalances_csv",
    "scale_down",
    "scale_downs_csv",
    "tokens",
]
