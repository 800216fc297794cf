"""One step for each line of the standard input, with Beanie, Django and MongoEngine: see ../test_odms.py.

    python odms.py '{"task": "steps", "uri": ..., "dbs": [...]}'
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from typing import Any, Optional

import beanie
import django
import mongoengine
import pymongo
from django.conf import settings

ARGUMENT = json.loads(sys.argv[1])
URI, DBS = ARGUMENT["uri"], ARGUMENT["dbs"]


class Beanie:
    def __init__(self) -> None:
        class Order(beanie.Document):
            way: str
            item: str
            number: Optional[int] = None

            class Settings:
                name = "orders_beanie"
                indexes = [pymongo.IndexModel("number", unique=True, sparse=True)]

        class Sparse(beanie.Document):
            way: str
            item: str
            number: Optional[int] = None

            class Settings:
                name = "orders_sparse"
                keep_nulls = False

        self._models = Order, Sparse
        self._runner = asyncio.Runner()
        self._client = pymongo.AsyncMongoClient(URI)
        self._made: dict[str, list[beanie.Document]] = {}

    async def _connect(self, db: str, skip_indexes: bool = True) -> None:
        await beanie.init_beanie(self._client[db], document_models=[*self._models], skip_indexes=skip_indexes)

    def init(self, db: str) -> None:
        self._runner.run(self._connect(db, skip_indexes=False))

    def first(self, db: str) -> None:
        async def run() -> None:
            await self._connect(db)
            order, sparse = self._models
            made = [order(way="beanie insert", item="cup"), order(way="beanie save", item="cup"),
                    order(way="beanie replace", item="cup"), sparse(way="beanie without nulls", item="cup")]
            for each in made:
                await (each.save() if each.way == "beanie save" else each.insert())
            self._made[db] = made
        self._runner.run(run())

    def second(self, db: str) -> None:
        async def run() -> None:
            await self._connect(db)
            for each in self._made[db]:
                each.item = "pot"
                await (each.replace() if each.way == "beanie replace" else each.save())
        self._runner.run(run())


class Django:
    def __init__(self) -> None:
        databases = {db: {"ENGINE": "django_mongodb_backend", "HOST": URI, "NAME": db} for db in DBS}
        settings.configure(DATABASES={"default": databases[DBS[0]], **databases}, INSTALLED_APPS=["orders"],
                           DEFAULT_AUTO_FIELD="django_mongodb_backend.fields.ObjectIdAutoField", USE_TZ=True)
        django.setup()
        from orders.models import Order
        self._order = Order
        self._made: dict[str, list[Any]] = {}

    def init(self, db: str) -> None:
        """manage.py migrate; the first migration is done where its collection is there."""
        from django.core.management import call_command
        from django.db import connections
        done = self._order._meta.db_table in connections[db].introspection.table_names()
        call_command("migrate", "orders", "0001", database=db, fake=done, verbosity=0)
        call_command("migrate", "orders", "0002", database=db, verbosity=0)

    def first(self, db: str) -> None:
        made = [self._order(way="django save", item="cup")]
        for each in made:
            each.save(using=db)
        several = [self._order(way=f"django bulk_create {k}", item="cup") for k in range(2)]
        self._order.objects.using(db).bulk_create(several)
        self._made[db] = made + several

    def second(self, db: str) -> None:
        for each in self._made[db]:
            each.item = "pot"
            each.save(using=db)


class MongoEngine:
    def __init__(self) -> None:
        class Order(mongoengine.Document):
            way = mongoengine.StringField()
            item = mongoengine.StringField()
            number = mongoengine.IntField(unique=True, sparse=True)
            meta = {"collection": "orders_mongoengine", "auto_create_index": False}

        self._order = Order
        mongoengine.connect(host=URI, db=DBS[0])
        for db in DBS:
            mongoengine.connect(host=URI, db=db, alias=db)
        self._made: dict[str, list[Any]] = {}

    def init(self, db: str) -> None:
        from mongoengine.context_managers import switch_db
        with switch_db(self._order, db) as order:
            order.ensure_indexes()

    def first(self, db: str) -> None:
        made = [self._order(way="mongoengine save", item="cup")]
        for each in made:
            each.switch_db(db)
            each.save()
        self._made[db] = made

    def second(self, db: str) -> None:
        for each in self._made[db]:
            each.item = "pot"
            each.save()


def main() -> None:
    odms = [Beanie(), Django(), MongoEngine()]
    for line in sys.stdin:
        step = json.loads(line)
        try:
            for odm in odms:
                getattr(odm, step["step"])(step["db"])
            print("{}", flush=True)
        except Exception as error:
            traceback.print_exc()
            print(json.dumps({"error": f"{type(odm).__name__}: {error}", "codes": []}), flush=True)


main()
