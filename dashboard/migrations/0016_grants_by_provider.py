from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("dashboard", "0015_roles_of_those_there"),
    ]
    operations = [
        migrations.RemoveConstraint(model_name="rolegrant", name="one_grant"),
        migrations.AddField(
            model_name="rolegrant",
            name="by_provider",
            field=models.BooleanField(default=False),
        ),
        migrations.AddConstraint(
            model_name="rolegrant",
            constraint=models.UniqueConstraint(
                fields=("user", "role", "pattern", "effect", "by_provider"), name="one_grant"
            ),
        ),
    ]
