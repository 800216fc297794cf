"""An image of scripts/image, unpacked, and its program run in there as a container would run it: with
another root, which is read-only, and as any user."""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import tarfile
from typing import Any

# ROOT CONFIGURATION USER PROGRAM OTHER ARGUMENT...: runs PROGRAM of the image in place of the other one.
_RUN = """
root=$1 configuration=$2 user=$3 program=$4
shift 5
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --bind "$configuration" "$root/etc/mongo-idproxy"
mount -o remount,bind,ro "$root/etc/mongo-idproxy"
exec chroot --userspec="$user" --groups= "$root" "$program" "$@"
"""


class Image:
    """root: its files. config: what it says of users, ports and what to start."""

    def __init__(self, archive: pathlib.Path, directory: pathlib.Path):
        self.archive = archive
        self.root = directory / "root"
        with tarfile.open(archive) as tar:
            def blob(digest: str) -> bytes:
                file = tar.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}")
                assert file
                return file.read()
            file = tar.extractfile("index.json")
            assert file
            (of_index,) = json.loads(file.read())["manifests"]
            self.names: dict[str, str] = of_index["annotations"]
            manifest = json.loads(blob(of_index["digest"]))
            self.config: dict[str, Any] = json.loads(blob(manifest["config"]["digest"]))["config"]
            for layer in manifest["layers"]:
                with tarfile.open(fileobj=io.BytesIO(blob(layer["digest"]))) as files:
                    files.extractall(self.root, filter="fully_trusted")
        self.files = {"/" + path.relative_to(self.root).as_posix(): path.lstat()
                      for path in self.root.rglob("*") if not path.is_dir() or path.is_symlink()}
        (self.root / "proc").mkdir()  # as whatever runs containers does

    def within(self, configuration: pathlib.Path, user: str = "") -> list[str]:
        """A command that starts what the image starts, in there, with the arguments of the command that it is
        given. configuration: the directory that is mounted as /etc/mongo-idproxy. user: UID:GID, if not the
        image's own."""
        (program,) = self.config["Entrypoint"]
        return ["unshare", "--mount", "--propagation", "private", "bash", "-ec", _RUN, "image",
                str(self.root), str(configuration), user or self.config["User"], program]

    def run(self, configuration: pathlib.Path, *arguments: str, user: str = "",
            environment: dict[str, str] = {}) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.within(configuration, user), "mongo-idproxy", *arguments],
                              capture_output=True, text=True, timeout=60, env={**os.environ, **environment})
