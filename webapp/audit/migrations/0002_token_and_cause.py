from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("audit", "0001_initial")]

    operations: ClassVar = [
        migrations.AddField("auditevent", "token", models.CharField(blank=True, max_length=120)),
        migrations.AddField("auditevent", "cause", models.CharField(blank=True, max_length=200)),
    ]
