"""An application of Django, as it would be without the proxy."""

from django.db import models
from django_mongodb_backend.fields import ObjectIdAutoField


class Order(models.Model):
    id = ObjectIdAutoField(primary_key=True)
    way = models.CharField(max_length=20)
    item = models.CharField(max_length=20)
    number = models.BigIntegerField(null=True, blank=True, unique=True)

    class Meta:
        db_table = "orders_django"
