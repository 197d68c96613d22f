"""The hosts of the cluster: network namespaces behind one bridge, with names that all of them know.

The suite itself runs in namespaces of its own (`enter`), so nothing of it can be seen outside, and the kernel ends all
of its processes, links and mounts with its first one, however that ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.support.servers import short_folder

INSIDE = "CLUSTER_INSIDE"
"""A variable that the suite has inside of its namespaces: its folder."""
PREFIX = "10.88.0."
PEERS = f"{PREFIX}1"
"""The address of the suite itself, with the clients and the other sides."""
FIRST = 11
"""The last part of the address of the first host."""
NOWHERE = "02:00:00:00:00:01"
"""The hardware address of nobody."""
DISABLED, FORWARDING = "0", "3"
"""States of a port of the bridge."""
PROGRAMS = ("unshare", "setpriv", "ip", "bridge", "etcd", "patroni", "patronictl", "haproxy", "redis-sentinel")
SERVERS = "/usr/lib/postgresql/*/bin/postgres"
TRIED = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]


def why_not() -> str:
    """Why this machine cannot run the suite, empty if it can."""
    if os.geteuid() != 0:
        return "it needs root"
    # Debian's programs of administrators, which the PATH of others may lack.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if missing := [name for name in PROGRAMS if not shutil.which(name)]:
        return f"there is no {', '.join(missing)} (`make cluster-packages`)"
    if not list(Path("/").glob(SERVERS[1:])):
        return "there is no PostgreSQL of Debian's packages (`make cluster-packages`)"
    if subprocess.run(TRIED, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
        return "this system does not let it make namespaces"
    return ""


def enter(module: str, arguments: Sequence[str]) -> int:
    """Runs the module in namespaces of its own, with a new folder in `INSIDE`; returns its exit status. A shell is the
    first process there, since something has to reap the processes that others leave. All of them end with this one."""
    spaces = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
    shell = ("sh", "-c", '"$@"; exit "$?"', "sh", sys.executable, "-m", module, *arguments)
    with short_folder() as folder:
        environment = {**os.environ, INSIDE: str(folder)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # every process of every host would compile all modules
        inside = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", *spaces, *shell], env=environment)
        signal.signal(signal.SIGTERM, lambda *_: inside.kill())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # those inside get it, too
        return inside.wait()


class Network:
    """All hosts, by their names."""

    def __init__(self, hosts: Sequence[str], folder: Path) -> None:
        """The folder becomes a file system in memory."""
        self.addresses = {host: f"{PREFIX}{FIRST + number}" for number, host in enumerate(hosts)}
        _run("mount -t tmpfs tmpfs", str(folder))
        Path("/run/netns").mkdir(exist_ok=True)
        _run("mount -t tmpfs tmpfs /run/netns")
        names = [("localhost", "127.0.0.1"), ("peers", PEERS), *self.addresses.items()]
        (folder / "hosts").write_text("".join(f"{address} {name}\n" for name, address in names))
        _run("mount --bind", str(folder / "hosts"), "/etc/hosts")
        _run("ip link set lo up")
        _run("ip link add bridge type bridge")
        _run(f"ip address add {PEERS}/24 dev bridge")
        _run("ip link set bridge up")
        for host, address in self.addresses.items():
            _run(f"ip netns add {host}")
            _run(f"ip link add {host} type veth peer name eth0 netns {host}")
            _run(f"ip link set {host} master bridge up")
            _run(f"ip -netns {host} link set lo up")
            _run(f"ip -netns {host} address add {address}/24 dev eth0")
            _run(f"ip -netns {host} link set eth0 up")

    def command(self, host: str, words: Sequence[str]) -> list[str]:
        """The command line that becomes these words on the host."""
        named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host)
        return ["ip", "netns", "exec", host, *named, *words]

    def cut(self, *hosts: str) -> None:
        """Nothing leaves or reaches the hosts any more, and nobody is told."""
        for host in hosts:
            _run(f"bridge link set dev {host} state {DISABLED}")

    def heal(self, *hosts: str) -> None:
        """Ends `cut`."""
        for host in hosts:
            _run(f"bridge link set dev {host} state {FORWARDING}")

    def split(self, host: str, others: Collection[str]) -> None:
        """Nothing passes between the host and the others any more, in either direction."""
        for side, name in self._sides(host, others):
            _run(f"ip -netns {side} neighbour replace {self.addresses[name]} lladdr {NOWHERE} nud permanent dev eth0")

    def join(self, host: str, others: Collection[str]) -> None:
        """Ends `split`."""
        for side, name in self._sides(host, others):
            _run(f"ip -netns {side} neighbour delete {self.addresses[name]} dev eth0")

    def _sides(self, host: str, others: Collection[str]) -> list[tuple[str, str]]:
        return [pair for other in others for pair in ((host, other), (other, host))]


def _run(words: str, *more: str) -> None:
    ended = subprocess.run([*words.split(), *more], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{words} {' '.join(more)}: {ended.stderr}"
