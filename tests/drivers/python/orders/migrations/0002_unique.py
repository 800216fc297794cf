from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0001_initial")]
    operations = [migrations.AlterField(
        model_name="order", name="number",
        field=models.BigIntegerField(null=True, blank=True, unique=True))]
