"""What the web process does below and before the pages: connections, headers and bodies of whoever
comes, within bounds. Knows no group.
"""

PROTOCOLS = "dashboard.web.protocols"
