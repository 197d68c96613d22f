"""The network of the containers (engine.py)."""

from __future__ import annotations

import subprocess

from tests.support.servers import PATIENCE


class Network:
    """A network of its own with a loopback address only."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n"
        self.enter = ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]

    def close(self) -> None:
        """Stops holding the network, which ends with the last process in it."""
        self._holder.terminate()
        self._holder.wait(PATIENCE)
        for pipe in (self._holder.stdin, self._holder.stdout):
            if pipe is not None:
                pipe.close()
