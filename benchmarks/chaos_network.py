"""A network namespace for each worker of a chaos run, whose link can be cut, and clocks that are wrong.

The run itself moves to a namespace of its own first (`enter_own_network`), which reaches nothing outside. In it, all
addresses of 10.77.0.0/16 are local: the hosts of the web, and the engine. Each worker has a namespace of its own with
one link (a veth pair) to it. The namespaces end with their processes, so nothing is left to clean up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NETWORK = "10.77.0.0/16"
ENGINE = "10.77.255.1"
_INSIDE = "CHAOS_NETWORK"
_LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


def enter_own_network(module: str) -> None:
    """Starts this program again in a namespace of its own, unless it is in one."""
    if os.environ.get(_INSIDE):
        return
    if missing := [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]:
        sys.exit(
            f"chaos: {', '.join(missing)} missing: install util-linux and iproute2, or leave WORKERS out"
        )
    words = [sys.executable, "-m", module, *sys.argv[1:]]
    # without root, as the root of a namespace of users
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    os.execvpe("unshare", ["unshare", *user, "--net", *words], {**os.environ, _INSIDE: "1"})


def prepare() -> None:
    """Makes the addresses of the web and of the engine local to this namespace."""
    assert os.environ.get(_INSIDE), "only in a namespace of its own"
    _ip("link", "set", "lo", "up")
    _ip("route", "add", "local", NETWORK, "dev", "lo")


def skewed_clock(seconds: float) -> dict[str, str]:
    """Returns the environment of a process whose clock is ahead by `seconds`; {} without libfaketime."""
    if not (_LIBRARIES and seconds):
        return {}
    # the monotonic clock moves along: with FAKETIME_DONT_FAKE_MONOTONIC, time.sleep fails and threads stop each other
    return {"LD_PRELOAD": str(_LIBRARIES[0]), "FAKETIME": f"{seconds:+.1f}s"}


class WorkerLink:
    """The namespace of a worker, whose address is 10.78.<number>.2, and its link."""

    def __init__(self, number: int) -> None:
        self.address = f"10.78.{number}.2"
        self._name = f"chaos{number}"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._holder.stdout
        self._holder.stdout.readline()
        self.command = ("nsenter", f"--net=/proc/{self._holder.pid}/ns/net")
        """The beginning of a command that runs at the worker's end."""
        _ip(
            "link", "add", self._name, "type", "veth", "peer", "name", "outer", "netns", str(self._holder.pid)
        )
        _ip("addr", "add", f"10.78.{number}.1/30", "dev", self._name)
        _ip("link", "set", self._name, "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("addr", "add", f"{self.address}/30", "dev", "outer"),
            ("link", "set", "outer", "up"),
            ("route", "add", "default", "via", f"10.78.{number}.1"),
        ):
            _ip(*words, at=self.command)

    def cut(self) -> None:
        """Drops all packets in both directions, without a word to either end."""
        _ip("link", "set", self._name, "down")

    def mend(self) -> None:
        _ip("link", "set", self._name, "up")

    def end(self) -> None:
        self._holder.kill()
        self._holder.wait(60)


def _ip(*words: str, at: tuple[str, ...] = ()) -> None:
    subprocess.run([*at, "ip", *words], check=True, timeout=60)
