"""No table changes: the audit's triggers are put anew after it (records/guards.py), for they refuse
more than they did.
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0016_grants_by_provider")]
    operations = []
