from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0033_audit_token")]
    operations = [
        migrations.AddField("group", "missed_looks", models.BigIntegerField(default=0)),
        migrations.AddIndex(
            "plan", models.Index(fields=["state", "expires_at_ms", "group"], name="plan_in_state")
        ),
        migrations.AddIndex(
            "rebalancerequest", models.Index(fields=["state", "group"], name="request_in_state")
        ),
        migrations.AddIndex(
            "scaledown", models.Index(fields=["state", "group"], name="scale_down_in_state")
        ),
    ]
