"""What scripts/package leaves."""

from __future__ import annotations

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPENDENCIES = ("Pre-Depends", "Depends", "Recommends")
CONFIGURATION = "etc/mongo-idproxy/mongo-idproxy.yaml"


class Package:
    def __init__(self, directory: pathlib.Path):
        (self.program,) = directory.glob("mongo-idproxy_*.deb")
        (self.symbols,) = directory.glob("mongo-idproxy-dbgsym_*.deb")
        (self.changes,) = directory.glob("*.changes")
        (self.build_information,) = directory.glob("*.buildinfo")

    def field(self, name: str) -> str:
        return _output("dpkg-deb", "--field", self.program, name)

    def depends_on(self) -> list[str]:
        """Names of packages, those that are only recommended among them."""
        fields = ",".join(filter(None, map(self.field, DEPENDENCIES)))
        return re.findall(r"(?:^|,)\s*([a-z0-9.+-]+)", fields)

    def newer(self, directory: pathlib.Path) -> pathlib.Path:
        """The same package as a next version, which ships another configuration."""
        tree = directory / "newer"
        _output("dpkg-deb", "--raw-extract", self.program, tree)
        control = tree / "DEBIAN/control"
        control.write_text(re.sub(r"(?m)^Version: .*", r"\g<0>+1", control.read_text()))
        with (tree / CONFIGURATION).open("a") as configuration:
            configuration.write("# of the next version\n")
        _output("dpkg-deb", "--build", "--root-owner-group", tree, directory / "newer.deb")
        return directory / "newer.deb"


def codename() -> str:
    """Of this machine's Debian."""
    return re.search(r"(?m)^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text())[1]


def make_root(directory: pathlib.Path, *options: str) -> pathlib.Path:
    """A Debian in there, from where this machine has its own."""
    sources = [path for path in ("/etc/apt/sources.list", "/etc/apt/sources.list.d/debian.sources")
               if pathlib.Path(path).exists()]
    subprocess.run(["mmdebstrap", "--quiet", "--dpkgopt=force-unsafe-io", *options, codename(), directory, *sources],
                   check=True)
    return directory


def _output(*command: str | pathlib.Path) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
