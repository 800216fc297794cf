"""mongo-idproxy ids --decode: what a value of a rule tells, or why the rule cannot have made it."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import typeid
import ulid
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions
from bson.objectid import ObjectId

from support.mongod import Mongod
from support.proxy import Proxy, binary, configuration

TYPEID = {"strategy": "uuid", "encoding": "base32", "prefix": "user_"}
TYPEID_TELLS = {"uuid": "01890a5d-ac96-774b-bcce-b302099a8057", "time": "2023-06-30T03:34:18.518Z"}
ULID_TELLS = {"time": "2017-10-24T01:29:36.371Z", "uuid": "015f4bff-cd73-5334-ada7-8edc1d4a6f1f"}
OBJECTID = "56e1fc72e0c917e9c4714161"
QUOTES = "\"'\\"


def decode(directory: pathlib.Path, rule: dict[str, Any], value: str, *options: str) -> subprocess.CompletedProcess[str]:
    file = directory / "config.yaml"
    file.write_text(json.dumps({"admin": {"listen": None}, "rules": [{"ns": "shop.users", "field": "code", **rule}]}))
    return subprocess.run([binary(), "ids", "--config", file, "--ns", "shop.users", "--field", "code",
                           *([f"--decode={value}"] if value else ["--decode", ""]), *options], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("rule, value, tells", [
    (TYPEID, "user_01h455vb4pex5vsknk084sn02q", TYPEID_TELLS),
    (TYPEID, '"user_01h455vb4pex5vsknk084sn02q"', TYPEID_TELLS),
    ({"strategy": "uuid"}, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
     {"uuid": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "time": "2022-02-22T19:22:22.000Z"}),
    ({"strategy": "uuid", "version": 1}, 'UUID("c232ab00-9414-11ec-b3c8-9f6bdeced846")',
     {"uuid": "c232ab00-9414-11ec-b3c8-9f6bdeced846", "time": "2022-02-22T19:22:22.000Z"}),
    ({"strategy": "uuid", "version": 4, "encoding": "hex"}, "919108f752d143209bacf847db4148a8",
     {"uuid": "919108f7-52d1-4320-9bac-f847db4148a8"}),
    ({"strategy": "uuid", "representation": "string", "prefix": "u-"}, "u-017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
     {"uuid": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "time": "2022-02-22T19:22:22.000Z"}),
    ({"strategy": "objectid"}, f'ObjectId("{OBJECTID}")', {"time": "2016-03-10T23:00:02.000Z"}),
    ({"strategy": "objectid", "output": "string"}, OBJECTID, {"time": "2016-03-10T23:00:02.000Z"}),
    ({"strategy": "objectid", "encoding": "base62"}, "{base62}",
     {"time": "2016-03-10T23:00:02.000Z", "objectid": OBJECTID}),
    ({"strategy": "ulid"}, "01BX5ZZKBKACTAV9WEVGEMMVRZ", ULID_TELLS),
    ({"strategy": "ulid", "output": "uuid"}, ULID_TELLS["uuid"], ULID_TELLS),
    ({"strategy": "snowflake"}, 'Long("132633958809620487")',
     {"time": "2025-01-01T00:00:00.000Z", "machine": "5", "sequence": "7"}),
    ({"strategy": "snowflake", "preset": "discord"}, "175928847299117063",
     {"time": "2016-04-30T11:18:25.796Z", "machine": "32", "sequence": "7"}),
    ({"strategy": "nanoid"}, "V1StGXR8_Z5jdHi6B-myT", {}),
    ({"strategy": "random-digits"}, "730015226954", {}),
    ({"strategy": "counter", "output": "string", "format": {"prefix": "R-", "pad": 6}}, "R-001001", {"number": "1001"}),
    ({"strategy": "counter"}, "1001", {"number": "1001"}),
    ({"strategy": "counter"}, "Long('1001')", {"number": "1001"}),
    ({"strategy": "counter", "start": 1000, "step": 10}, "501", {"number": "501"}),  # where the counter had been
    ({"strategy": "counter", "start": -1, "step": -3}, "-4", {"number": "-4"}),
    ({"strategy": "counter-ranges", "ranges": {"count": 2, "width": 1000}}, "1999", {"number": "1999"}),
    ({"strategy": "objectid"}, f"ObjectId('{OBJECTID.upper()}')", {"time": "2016-03-10T23:00:02.000Z"}),
    ({"strategy": "uuid", "version": 4}, "UUID('919108F7-52D1-4320-9BAC-F847DB4148A8')",
     {"uuid": "919108f7-52d1-4320-9bac-f847db4148a8"}),
    ({"strategy": "uuid", "version": 4, "representation": "java-legacy"},
     'HexData(3, "2043d152f7089191a84841db47f8ac9b")', {"uuid": "919108f7-52d1-4320-9bac-f847db4148a8"}),
    ({"strategy": "uuid", "version": 4, "representation": "csharp-legacy"},
     "HexData(3,'F7089191D15220439BACF847DB4148A8')", {"uuid": "919108f7-52d1-4320-9bac-f847db4148a8"}),
    ({"strategy": "uuid", "version": 4, "representation": "python-legacy"},
     "919108f7-52d1-4320-9bac-f847db4148a8", {"uuid": "919108f7-52d1-4320-9bac-f847db4148a8"}),
    ({"strategy": "ulid", "output": "binary"}, f'HexData(0, "{ULID_TELLS["uuid"].replace("-", "")}")', ULID_TELLS),
    ({"strategy": "ulid"}, "'01BX5ZZKBKACTAV9WEVGEMMVRZ'", ULID_TELLS),
    ({"strategy": "nanoid", "size": 4, "alphabet": QUOTES}, r'"\"\\\"\'"', {}),
    ({"strategy": "nanoid", "size": 4, "alphabet": QUOTES}, r"'\'\\\"\\'", {}),
    ({"strategy": "nanoid", "size": 4, "alphabet": QUOTES}, '"\'\\"', {}),
])
def test_what_a_value_tells(tmp_path, rule, value, tells):
    if value == "{base62}":
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
        number, value = int(OBJECTID, 16), ""
        while number:
            number, digit = divmod(number, 62)
            value = digits[digit] + value
        value = value.rjust(17, "0")
    done = decode(tmp_path, rule, value)
    assert done.returncode == 0, done
    assert done.stdout == "".join(f"{name} {text}\n" for name, text in tells.items()), done
    assert bool(done.stderr) == (not tells), done
    done = decode(tmp_path, rule, value, "--json")
    assert json.loads(done.stdout) == {"ns": "shop.users", "field": "code", "strategy": rule["strategy"], **tells}


@pytest.mark.parametrize("rule, value, reason", [
    (TYPEID, "team_01h455vb4pex5vsknk084sn02q", 'does not begin with "user_"'),
    (TYPEID, "user_01h455vb4pex5vsknk084sn02", "has 25 characters behind the prefix, and the rule's values have 26"),
    (TYPEID, "user_01h455vb4pex5vsknk084sn02l", 'has "l", which is none of 0123456789abcdefghjkmnpqrstvwxyz'),
    (TYPEID, "user_8zzzzzzzzzzzzzzzzzzzzzzzzz", "has more than 128 bits"),
    (TYPEID, "user_7zzzzzzzzzzzzzzzzzzzzzzzzz", "ffffffff-ffff-ffff-ffff-ffffffffffff is no UUID of version 7"),
    ({"strategy": "uuid"}, "017f22e279b07cc398c4dc0c0c07398f", "is no UUID of 36 lower-case characters"),
    ({"strategy": "objectid"}, "56e1fc72", "has 8 characters, and the rule's values have 24"),
    ({"strategy": "ulid"}, "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "has more than 128 bits"),
    ({"strategy": "snowflake", "preset": "js53"}, "9007199254740992", "has more than 53 bits"),
    ({"strategy": "nanoid", "alphabet": "abc", "size": 4}, "abcd", 'has "d", which is none of abc'),
    ({"strategy": "uuid"}, " 17f22e2-79b0-7cc3-98c4-dc0c0c07398f", "is no UUID of 36 lower-case characters"),
    ({"strategy": "objectid"}, f'ObjectId("{OBJECTID}");', "has 37 characters, and the rule's values have 24"),
    ({"strategy": "ulid"}, '"01BX5ZZKBKACTAV9WEVGEMMVRZ"x', "has 29 characters, and the rule's values have 26"),
    ({"strategy": "ulid"}, "", "has 0 characters, and the rule's values have 26"),
    ({"strategy": "counter"}, '"1001"', "is no integer of 64 bits"),
    ({"strategy": "ulid"}, ' "01BX5ZZKBKACTAV9WEVGEMMVRZ"', "has 29 characters, and the rule's values have 26"),
    ({"strategy": "counter", "output": "string", "format": {"prefix": "R-", "pad": 6}}, "R-1",
     'is not written as the rule\'s values are, such as "R-000000"'),
    ({"strategy": "counter", "max": 5}, "6", "lies beyond the last, 5"),
    ({"strategy": "counter-ranges", "ranges": {"count": 2, "width": 1000}}, "2000", "lies beyond the last, 1999"),
    ({"strategy": "gapless"}, "-5", "lies before the first, 1"),
    ({"strategy": "counter"}, "007", "is no integer of 64 bits"),
    ({"strategy": "random-digits"}, "12a", "is no integer of 64 bits"),
])
def test_what_a_rule_cannot_have_made(tmp_path, rule, value, reason):
    done = decode(tmp_path, rule, value)
    assert done.returncode == 1 and done.stdout == "", done
    assert done.stderr.rstrip().endswith(
        f"the rule for code in shop.users cannot have made {json.dumps(value)}: {reason}"), done


def test_that_a_template_is_not_decoded(tmp_path):
    done = decode(tmp_path, {"strategy": "counter", "output": "string", "template": "A-{yyyy}-{counter}"}, "A-2026-1")
    assert done.returncode == 1 and done.stdout == "", done
    assert done.stderr.rstrip().endswith(
        "the rule for code in shop.users has a template, whose values are not decoded: `verify` judges them"), done


def test_samples_of_a_small_space(tmp_path):
    file = tmp_path / "config.yaml"
    for rule, count in (({"strategy": "nanoid", "size": 4, "alphabet": "ab"}, 16),
                        ({"strategy": "random-digits", "digits": 1}, 10)):
        file.write_text(json.dumps({"admin": {"listen": None},
                                    "rules": [{"ns": "shop.users", "field": "code", **rule}]}))
        done = subprocess.run([binary(), "ids", "--config", file, "--ns", "shop.users", "--field", "code", "-n", "17"],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and len(set(done.stdout.split())) == len(done.stdout.split()) == count, done


# Libraries that are not ours: the time and the UUID that they read.
READERS: dict[str, Callable[[Any], dict[str, str]]] = {
    "typeid": lambda value: {"uuid": str(typeid.TypeID.from_string(value).uuid)},
    "ulid": lambda value: {"uuid": str(ulid.ULID.from_str(value).to_uuid()),
                           "time": millisecond(ulid.ULID.from_str(value).datetime)},
    "ulid-uuid": lambda value: {"uuid": str(value),
                                "time": millisecond(ulid.ULID.from_bytes(value.bytes).datetime)},
    "objectid": lambda value: {"time": millisecond(ObjectId(f"{int(value, 36):024x}").generation_time)},
    "uuid1": lambda value: {"uuid": value},
}


def millisecond(time: datetime) -> str:
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def test_what_the_proxy_has_stored(replica_set: Mongod, start_proxy, tmp_path, coll):
    """Each is of now, and means the same to others."""
    rules = {"typeid": TYPEID, "uuid1": {"strategy": "uuid", "version": 1, "representation": "string"},
             "objectid": {"strategy": "objectid", "encoding": "base36"}, "ulid": {"strategy": "ulid"},
             "ulid-uuid": {"strategy": "ulid", "output": "uuid"}}
    proxy: Proxy = start_proxy(configuration(replica_set, [
        {"ns": f"{coll}.{name}", "field": "code", **rule} for name, rule in rules.items()]))
    for name, rule in rules.items():
        proxy.client(uuidRepresentation="standard")[coll][name].insert_many([{} for _ in range(100)])
        raw = replica_set.client[coll].get_collection(
            name, codec_options=CodecOptions(uuid_representation=UuidRepresentation.STANDARD))
        stored = [each["code"] for each in raw.find().sort("_id", 1)]
        assert len(set(stored)) == 100
        for value in (stored[0], stored[-1]):
            told = json.loads(decode(tmp_path, rule, str(value), "--json").stdout)
            made = datetime.strptime(told["time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
            assert abs(datetime.now(timezone.utc) - made) < timedelta(minutes=2), (name, told)
            assert READERS[name](value).items() <= told.items(), (name, told)
