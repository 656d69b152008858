from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0004_avoidable_may_be_unknown")]
    operations = [
        migrations.RenameField(model_name="rebalance", old_name="copies", new_name="replicas"),
    ]
