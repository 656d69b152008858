from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0005_rename_copies")]
    operations = [
        migrations.AlterModelOptions(
            name="rebalance", options={"ordering": ("-incarnation", "-target_epoch")}
        ),
        migrations.RemoveConstraint(model_name="rebalance", name="one_target_per_epoch"),
        migrations.AddField(
            model_name="rebalance",
            name="incarnation",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddConstraint(
            model_name="rebalance",
            constraint=models.UniqueConstraint(
                fields=("group", "incarnation", "target_epoch"), name="one_target_per_epoch"
            ),
        ),
        migrations.AddField(
            model_name="group",
            name="scale_downs_version",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="group", name="faults", field=models.JSONField(default=list)
        ),
    ]
