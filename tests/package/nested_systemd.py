"""A systemd of its own, so that units can be run as they are where it is not process 1."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from support.process import eventually, start

SCRIPT = pathlib.Path(__file__).with_suffix(".sh")
NAMESPACES = ["--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup", "--propagation", "private"]


class Cgroup:
    """One to put processes in, below that of this process; goes with them."""

    def __init__(self) -> None:
        mounts = [line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
        (root,) = [mount[1] for mount in mounts if mount[2] == "cgroup2"][:1]
        (own,) = [line[len("0::/"):] for line in
                  pathlib.Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
        self.path = pathlib.Path(root) / own / f"idproxy-test-{os.getpid()}"
        self.path.mkdir()

    def close(self) -> None:
        def is_gone() -> bool:
            for path, _, _ in os.walk(self.path, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    return False
            return True
        eventually(is_gone, 20, "the processes of the cgroup have ended")


class NestedSystemd:
    """Runs from construction until close(), over the files of this machine and in its network, or over
    those of another root directory and in a network of its own. Nobody else sees what it changes in the
    files."""

    def __init__(self, files: pathlib.Path = pathlib.Path("/")) -> None:
        namespaces = [*NAMESPACES, *(["--net"] if files != pathlib.Path("/") else [])]
        self._cgroup = Cgroup()
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix="idproxy-systemd-"))
        self._init = 0
        join = f'echo $$ >"{self._cgroup.path}/cgroup.procs" && exec "$@"'
        self._process = start(
            ["bash", "-c", join, "bash", "unshare", *namespaces, str(SCRIPT), str(self._directory), str(files)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            eventually(self._has_started, 60, "systemd is up")
        except BaseException:
            self.close()
            raise

    def _has_started(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(self._process.stderr.read().decode())
        if not self._init:
            children = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
            self._init = int((pathlib.Path(children).read_text().split() or [0])[0])
            return False
        is_running = pathlib.Path(f"/proc/{self._init}/comm").read_text() == "systemd\n"
        return is_running and self.attempt(
            "systemctl", "is-system-running").stdout.strip() in ("running", "degraded")

    @property
    def root(self) -> pathlib.Path:
        """Its files, as seen from here."""
        return pathlib.Path(f"/proc/{self._init}/root")

    def pid_here(self, pid: int) -> int:
        """What a process that has this pid there is called here; so is its first thread."""
        own = os.readlink(f"/proc/{self._init}/ns/pid")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                names = re.search(r"(?m)^NSpid:.*\t(\d+)$", (process / "status").read_text())
                if int(names[1]) == pid and os.readlink(process / "ns" / "pid") == own:
                    return int(process.name)
            except FileNotFoundError:
                pass  # has ended meanwhile
        raise ProcessLookupError(pid)

    def in_its_network(self, *command: str) -> list[str]:
        """The command line that runs a program of this machine there."""
        return ["nsenter", f"--net=/proc/{self._init}/ns/net", *command]

    def entering(self) -> list[str]:
        """What comes before a command that runs there."""
        return ["nsenter", f"--target={self._init}", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--net",
                "--root", "--wd"]

    def attempt(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs it there."""
        return subprocess.run([*self.entering(), *command], capture_output=True, text=True, timeout=60, check=False)

    def run(self, *command: str) -> str:
        """Runs it there; it must succeed."""
        done = self.attempt(*command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def close(self) -> None:
        if self._init:
            os.kill(self._init, 9)
        else:
            self._process.kill()
        self._process.wait()
        self._process.stderr.close()
        self._cgroup.close()
        shutil.rmtree(self._directory)


def why_impossible() -> str:
    """Empty if there can be one here. It takes much of what root of a whole machine may do."""
    if os.geteuid() != 0:
        return "not root"
    try:
        NestedSystemd().close()
    except Exception as error:  # whatever it is that is not permitted
        return str(error).strip() or repr(error)
    return ""
