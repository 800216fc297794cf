"""Holds every include to the table of modules in src/README.md."""

import pathlib
import re
import sys

CORE_FORBIDDEN = ("boost/asio", "spdlog", "mongoc", "bson/", "yaml-cpp", "thread", "sys/socket.h")
ALLOWED = {
    "base": set(),
    "bson": {"base"},
    "wire": {"base", "bson"},
    "ids": {"base", "bson"},
    "rewrite": {"base", "bson", "wire", "ids"},
    "observability": {"base"},
    "id_store": {"base", "bson", "ids", "observability"},
    "net": {"base", "bson", "wire", "ids", "rewrite", "observability"},
    "config": {"base", "bson", "ids", "rewrite", "observability", "id_store", "net"},
    "app": {"base", "bson", "wire", "ids", "rewrite", "observability", "id_store", "net", "config"},
}
CORE = ("base", "bson", "wire", "ids", "rewrite")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


def faults(root: pathlib.Path):
    for module, allowed in ALLOWED.items():
        for folder in (root / "include" / "idproxy" / module, root / "src" / module):
            for file in sorted(folder.glob("*.[hc]pp")):
                for include in INCLUDE.findall(file.read_text()):
                    other = re.match(r"idproxy/(\w+)/", include)
                    if other and other[1] != module and other[1] not in allowed:
                        yield f"{file.relative_to(root)}: {module} may not include {include}"
                    if module in CORE and include.startswith(CORE_FORBIDDEN):
                        yield f"{file.relative_to(root)}: the core may not include <{include}>"


def main() -> int:
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "every include is allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
