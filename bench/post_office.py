"""Driving the peer of sending: its database, and processes of it that begin together."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

import psycopg

from bench.processes import ROOT, Failed
from bench.stack import Stack, plain_url

MODULE = "bench.peers.post_office"
DATABASE = "post_office"


def prepare(stack: Stack) -> dict[str, str]:
    """Makes the peer's database on the server of the stack; the environment of its processes."""
    with stack.connect() as connection:
        connection.autocommit = True
        connection.execute(f"CREATE DATABASE {DATABASE}")
        url = psycopg.conninfo.make_conninfo(plain_url(stack.database_url), dbname=DATABASE)
    environment = {**os.environ, "PEER_DATABASE_URL": url}
    subprocess.run(
        [sys.executable, "-m", MODULE, "prepare"], cwd=ROOT, env=environment, check=True, capture_output=True
    )
    return environment


def seconds_of(environment: Mapping[str, str], command: Sequence[str], processes: int) -> float:
    """How long that many processes, each with the command, take from their common start to the end of the last."""
    with contextlib.ExitStack() as kept:
        started = [kept.enter_context(_process(environment, command)) for _ in range(processes)]
        _await(started, "ready")
        began = time.perf_counter()
        for process in started:
            print("go", file=process.stdin, flush=True)
        _await(started, "done")
        return time.perf_counter() - began


def _process(environment: Mapping[str, str], command: Sequence[str]) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", MODULE, *command]
    pipe = subprocess.PIPE
    return subprocess.Popen(arguments, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True)


def _await(processes: Sequence[subprocess.Popen[str]], word: str) -> None:
    for process in processes:
        said = process.stdout.readline().strip() if process.stdout else ""
        if said != word:
            raise Failed(f"post_office said {said!r} instead of {word!r}")


def mails(environment: Mapping[str, str]) -> int:
    """How many mails the peer's database holds."""
    with psycopg.connect(environment["PEER_DATABASE_URL"]) as connection:
        (count,) = connection.execute("SELECT count(*) FROM post_office_email").fetchone() or (0,)
    return int(count)
