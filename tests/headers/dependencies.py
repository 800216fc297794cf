"""Holds every include to the table of modules in src/README.md, components to an order, and a source to
including its own header first.

A component is a header with its source. None may need itself, however many others are between.
"""

import graphlib
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
OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


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


def own_headers(root: pathlib.Path):
    for source in sorted((root / "src").glob("*/*.cpp")):
        module = source.parent.name
        public = root / "include" / "idproxy" / module / f"{source.stem}.hpp"
        own = [f"idproxy/{module}/{public.name}"] if public.exists() else []
        if source.with_suffix(".hpp").exists():
            own += [public.name, f"{module}/{public.name}"]
        if own and INCLUDE.findall(source.read_text())[0] not in own:
            yield f"{source.relative_to(root)}: its first include must be {own[0]}"


def components(root: pathlib.Path) -> dict[str, set[str]]:
    """What each one includes, as "module/name"."""
    includes: dict[str, set[str]] = {}
    for folder in (root / "include" / "idproxy", root / "src"):
        for file in sorted(folder.glob("*/*.[hc]pp")):
            own = f"{file.parent.name}/{file.stem}"
            for include in OWN_INCLUDE.findall(file.read_text()):
                path = pathlib.PurePath(include)
                module = path.parts[1] if path.parts[0] == "idproxy" else file.parent.name
                other = f"{module}/{path.stem}"
                if other != own:
                    includes.setdefault(own, set()).add(other)
    return includes


def cycles(root: pathlib.Path):
    try:
        graphlib.TopologicalSorter(components(root)).prepare()
    except graphlib.CycleError as error:
        yield "components need each other: " + " <- ".join(error.args[1])


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    found = [*faults(root), *own_headers(root), *cycles(root)]
    print("\n".join(found) or "every include is allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
