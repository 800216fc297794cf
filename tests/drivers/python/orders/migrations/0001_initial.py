from django.db import migrations, models
from django_mongodb_backend.fields import ObjectIdAutoField


class Migration(migrations.Migration):
    initial = True
    operations = [migrations.CreateModel(
        name="Order",
        fields=[("id", ObjectIdAutoField(primary_key=True)),
                ("way", models.CharField(max_length=20)),
                ("item", models.CharField(max_length=20)),
                ("number", models.BigIntegerField(null=True, blank=True))],
        options={"db_table": "orders_django"})]
