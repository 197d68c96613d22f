"""Runs the peer of the sending cases: its database, and processes of it that start together."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import psycopg

from bench import started
from bench.processes import ROOT
from bench.stack import Stack, plain_url

MODULE = "bench.peers.post_office"
DATABASE = "post_office"


def prepare(stack: Stack) -> dict[str, str]:
    """Creates the peer's database on the PostgreSQL of the stack; returns the environment of its processes."""
    with stack.connect() as connection:
        connection.autocommit = True
        connection.execute(f"CREATE DATABASE {DATABASE}")
        url = psycopg.conninfo.make_conninfo(plain_url(stack.database_url), dbname=DATABASE)
    environment = {**os.environ, "PEER_DATABASE_URL": url}
    call(environment, ["prepare"])
    return environment


def call(environment: Mapping[str, str], command: Sequence[str]) -> None:
    """Runs a command of the peer."""
    arguments = [sys.executable, "-m", MODULE, *command]
    subprocess.run(arguments, cwd=ROOT, env={**os.environ, **environment}, check=True, capture_output=True, input=b"\n")


def seconds_of(environment: Mapping[str, str], command: Sequence[str], processes: int) -> float:
    """The seconds from the common start of so many processes, each with the command, to the end of the last."""
    return started.seconds_of([MODULE, *command], environment, processes)


def mails(environment: Mapping[str, str]) -> int:
    """The number of mails in the peer's database."""
    with psycopg.connect(environment["PEER_DATABASE_URL"]) as connection:
        (count,) = connection.execute("SELECT count(*) FROM post_office_email").fetchone() or (0,)
    return int(count)
