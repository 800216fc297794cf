"""Holds every include to the table of modules in src/README.md, and to that of the folders of a module,
components to an order, a source to including its own header first, a header to its place, and a namespace
to the folder it is in.

Usage: dependencies.py ROOT [--single-users]. A component is a header with its source. None may need itself,
however many others are between.

A face is a header that a file of another module includes, or src/main.cpp, or another face, since others see
only include/. Faces are in include/idproxy/, and all other headers beside their sources.

With --single-users it checks nothing, and prints the headers with a class that have one user at most beside
their own source, with that user: perhaps the class belongs there.
"""

import argparse
import graphlib
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator

CORE_FORBIDDEN = ("boost/asio", "spdlog", "mongoc", "bson/", "yaml-cpp", "thread", "sys/socket.h")
ALLOWED = {
    "base": set(),
    "bson": {"base"},
    "wire": {"base", "bson"},
    "ids": {"base", "bson"},
    "rewrite": {"base", "bson", "wire", "ids"},
    "log": {"base"},
    "threads": {"log"},
    "metrics": {"base"},
    "admin": {"base", "log"},
    "id_store": {"base", "bson", "ids", "log", "threads", "metrics"},
    "net": {"base", "bson", "wire", "ids", "rewrite", "log", "threads", "metrics"},
    "config": {"base", "bson", "ids", "rewrite", "log", "threads", "metrics", "id_store", "net"},
    "app": {"base", "bson", "wire", "ids", "rewrite", "log", "threads", "metrics", "admin", "id_store", "net",
            "config"},
}
# Of a module that has folders: what files of each may include of the module.
FOLDERS = {
    "app": set(),
    "app/state": {"app"},
    "app/views": {"app", "app/state"},
    "app/serve": {"app", "app/state", "app/views"},
    "app/jobs": {"app", "app/state", "app/views"},
    "app/doctor": {"app", "app/state", "app/views", "app/jobs"},
    "app/commands": {"app", "app/state", "app/views", "app/jobs", "app/doctor"},
}
CORE = ("base", "bson", "wire", "ids", "rewrite")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"][^">]+[">])', re.MULTILINE)
# But where it only says what another one has.
NAMESPACE = re.compile(r"^namespace (idproxy[\w:]*) \{(?!\n(?:class|struct) \w+;\n\})", re.MULTILINE)
CLASS = re.compile(r"^(?:class|struct)\s+(\w+)\b[^;{(]*\{", re.MULTILINE)


class Tree:
    """The files under src/, include/ and tests/, and what they include of ours. All paths are below the root."""

    def __init__(self, root: pathlib.Path):
        self.includes: dict[pathlib.Path, list[str]] = {}  # as they are written, with <> or ""
        self.classes: dict[pathlib.Path, list[str]] = {}
        self.namespaces: dict[pathlib.Path, list[str]] = {}
        for folder in ("include/idproxy", "src", "tests"):
            for file in sorted((root / folder).rglob("*.[hc]pp")):
                text = file.read_text()
                self.includes[file.relative_to(root)] = INCLUDE.findall(text)
                self.classes[file.relative_to(root)] = CLASS.findall(text)
                self.namespaces[file.relative_to(root)] = NAMESPACE.findall(text)

    def program(self) -> list[pathlib.Path]:
        return [file for file in self.includes if file.parts[0] != "tests"]

    def headers(self) -> list[pathlib.Path]:
        return [file for file in self.program() if file.suffix == ".hpp"]

    def header(self, include: str) -> pathlib.Path | None:
        """The header that an include means in its one form."""
        folder = "include" if include.startswith('"idproxy/') else "src"
        path = pathlib.Path(folder) / include[1:-1]
        return path if include.startswith('"') and path in self.includes else None

    def used(self, file: pathlib.Path) -> list[pathlib.Path]:
        return [header for include in self.includes[file] if (header := self.header(include))]

    def of_tests(self, file: pathlib.Path, include: pathlib.PurePath) -> bool:
        """True if this include of a test means a header of tests/."""
        return file.parts[0] == "tests" and (
            file.parent / include in self.includes or "tests" / include in self.includes)

    def faces(self) -> set[pathlib.Path]:
        faces = {header for file in self.program() for header in self.used(file)
                 if module_of(header) != module_of(file)}
        new = set(faces)
        while new:
            new = {header for face in new for header in self.used(face)} - faces
            faces |= new
        return faces


def folder_of(file: pathlib.Path) -> str:
    """As "app/state"; "" of main.cpp and of tests."""
    parts = file.parts[2:] if file.parts[0] == "include" else file.parts[1:]
    return "/".join(parts[:-1]) if file.parts[0] != "tests" else ""


def module_of(file: pathlib.Path) -> str | None:
    """None: of main.cpp and of tests."""
    return folder_of(file).partition("/")[0] or None


def form(header: pathlib.Path) -> str:
    return f'"{pathlib.PurePath(*header.parts[1:])}"'


def moved(header: pathlib.Path, folder: str) -> str:
    """What to do with a header that is in the wrong place."""
    to = pathlib.Path(folder) / folder_of(header) / header.name
    return f"move it to {to.parent}, and include it as {form(to)}"


def faults(tree: Tree) -> Iterator[str]:
    for file in tree.program():
        module = module_of(file)
        if module is None:
            continue
        for include in tree.includes[file]:
            header = tree.header(include)
            other = module_of(header) if header else module
            if other != module and other not in ALLOWED[module]:
                yield f"{file}: {module} may not include {include[1:-1]}"
            here, there = folder_of(file), folder_of(header) if header else ""
            if other == module and there not in ("", here) and there not in FOLDERS.get(here, ()):
                yield f"{file}: {here} may not include {include[1:-1]}"
            if module in CORE and not header and include[1:].startswith(CORE_FORBIDDEN):
                yield f"{file}: the core may not include <{include[1:-1]}>"


def namespaces(tree: Tree) -> Iterator[str]:
    """A namespace is a folder, or within that of its folder. What all know, base, is in idproxy itself."""
    for file in tree.program():
        folder = folder_of(file).removeprefix("base")
        its = "::".join(["idproxy", *filter(None, folder.split("/"))])
        for name in tree.namespaces[file]:
            if not f"{name}::".startswith(f"{its}::"):
                yield f"{file}: namespace {name} must be {its}"


def own_headers(tree: Tree) -> Iterator[str]:
    for source in tree.program():
        own = [header for header in tree.headers() if component(header) == component(source)]
        if source.suffix == ".cpp" and own and tree.header(tree.includes[source][0]) not in own:
            yield f"{source}: its first include must be {either(own)}"


def places(tree: Tree) -> Iterator[str]:
    faces = tree.faces()
    for header in tree.headers():
        if header.parts[0] == "src" and header in faces:
            yield f"{header}: another module or a face includes it: {moved(header, 'include/idproxy')}"
        if header.parts[0] == "include" and header not in faces:
            yield f"{header}: no other module needs it: {moved(header, 'src')}"


def forms(tree: Tree) -> Iterator[str]:
    """A header of ours has one form: "idproxy/module/file.hpp" if it is a face, else "module/file.hpp"."""
    headers: dict[tuple[str, str], list[pathlib.Path]] = {}
    for header in tree.headers():
        headers.setdefault((header.parent.name, header.name), []).append(header)
    for file, includes in tree.includes.items():
        for include in includes:
            path = pathlib.PurePath(include[1:-1])
            meant = headers.get((path.parent.name or file.parent.name, path.name))
            if meant and not tree.header(include) and not tree.of_tests(file, path):
                yield f"{file}: {include} must be {either(meant)}"


def either(headers: Iterable[pathlib.Path]) -> str:
    return " or ".join(map(form, headers))


def component(file: pathlib.Path) -> str:
    """As "folder/name"."""
    return f"{file.parent.name}/{file.stem}"


def cycles(tree: Tree) -> Iterator[str]:
    needs: dict[str, set[str]] = {}
    for file in tree.program():
        others = {component(header) for header in tree.used(file)} - {component(file)}
        needs.setdefault(component(file), set()).update(others)
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        yield "components need each other: " + " <- ".join(error.args[1])


def single_users(tree: Tree) -> Iterator[str]:
    for header in tree.headers():
        users = [file for file in tree.program() if header in tree.used(file)
                 and (file.suffix == ".hpp" or component(file) != component(header))]
        if tree.classes[header] and len(users) <= 1:
            yield f"{header}: {', '.join(tree.classes[header])}: {users[0] if users else 'nobody'}"


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("root", type=pathlib.Path)
    arguments.add_argument("--single-users", action="store_true",
                           help="print the headers with a class that have one user at most")
    options = arguments.parse_args()
    tree = Tree(options.root)
    if options.single_users:
        print("\n".join(single_users(tree)))
        return 0
    found = [fault for check in (faults, namespaces, own_headers, places, forms, cycles)
             for fault in check(tree)]
    print("\n".join(found) or "every include is allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
