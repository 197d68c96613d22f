"""What containers and units need around them, in a network of their own: relay, name server, Redis, PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.settings import own_redis_socket
from tests.deploy.network import Network
from tests.support.deployment import ROOT
from tests.support.redis_process import running_redis

NAME_SERVER = """\
import signal
from tests.support.nameserver import NameServer
with NameServer(5353):
    print("answering", flush=True)
    signal.pause()
"""
REQUEST = """\
import sys, json, urllib.request
url, headers, body = json.load(sys.stdin)
request = urllib.request.Request(url, body and body.encode(), headers)
with urllib.request.urlopen(request) as answer:
    print(json.dumps([answer.status, answer.read().decode()]))
"""


@contextmanager
def inside(network: Network, ready: str, *arguments: str) -> Iterator[None]:
    """A program of this machine in the network; it has started when it prints that word, if any."""
    command = [*network.enter, sys.executable, "-u", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if ready:
                assert ready in process.stdout.readline()
            yield
        finally:
            process.terminate()


@contextmanager
def surroundings(network: Network, mails: Path, sockets: Mapping[int, Path]) -> Iterator[None]:
    """A Redis at 6379, a relay at 2525 that keeps its mails in the folder, a name server at 5353 without any name, and
    further ports that lead to sockets in the file system."""
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis())
        for port, path in {6379: own_redis_socket(redis.data_dir), **sockets}.items():
            arguments = ("-m", "tests.deploy.forward", str(port), str(path))
            stack.enter_context(inside(network, "forwarding", *arguments))
        relay = ("-m", "aiosmtpd", "-n", "-l", "127.0.0.1:2525", "-c", "aiosmtpd.handlers.Mailbox", str(mails))
        stack.enter_context(inside(network, "", *relay))
        stack.enter_context(inside(network, "answering", "-c", NAME_SERVER))
        yield


def ask(network: Network, path: str, headers: Mapping[str, str], body: str | None = None) -> tuple[int, str]:
    """A request to the API from the machine that it runs on."""
    done = subprocess.run(
        [*network.enter, sys.executable, "-c", REQUEST],
        input=json.dumps([f"http://127.0.0.1:8000{path}", dict(headers), body]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    status, text = json.loads(done.stdout)
    return status, text
