"""Faults of the machine: its disk, the rights of its files, its memory, and a second service on the same folder."""

from __future__ import annotations

import base64
import contextlib
import os
import random
import resource
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from tests.chaos.disk import fill
from tests.chaos.limits import Limits
from tests.chaos.promises import Promise
from tests.chaos.record import SUBJECT, RoundRecord, words_for
from tests.chaos.registry import IN_FLIGHT, PROCESSES, RESTART, STARTED_AGAIN, fault, run_again
from tests.chaos.stage import START_WITHIN, Setup, Stage
from tests.support.servers import free_port, wait_until

WITHOUT_WRITING = 0o555
"""The bits of a mode that let nobody write."""
AT_ONCE = 30
"""Requests that open connections while the database can only be read."""
SETTLING = 3.0
"""Seconds after which requests are accepted again."""
RIVALS = 3
"""Launchers that are one too many, in a round."""
LARGE, LARGE_AT_ONCE = 4_000_000, 3
"""Bytes of an attachment, and how many mails with one are sent at once while memory is scarce."""
SPARE = 1 << 20
"""How many bytes a process may still take."""


@fault("disk-full", Promise.REFUSAL, Promise.MAIL_TWICE, setup=Setup(small_disk=True))
def disk_full(stage: Stage, _chance: random.Random) -> None:
    """The disk of the data folder is full for six seconds."""
    with fill(stage.data):
        time.sleep(6)


@fault(
    *("folder-unwritable", Promise.RESUMING, Promise.REFUSAL, Promise.LEFT_BEHIND),
    limits=IN_FLIGHT,
    setup=Setup(bound_by_modes=True),
)
def folder_unwritable(stage: Stage, chance: random.Random) -> float:
    """The data folder and everything in it cannot be written for eight seconds, but by who has it open already. So a
    sender and the worker of webhooks are killed meanwhile, and those in their places have to open it. Then it is the
    files alone for eight seconds, and they are killed again: what starts now opens a database that it can only read, as
    does the API for many requests at once. No such connection may be used afterwards."""
    for paths in ((stage.data, *stage.data.rglob("*")), tuple(stage.data.glob("*.sqlite3*"))):
        with _unwritable(paths):
            time.sleep(2)
            stage.kill(chance.choice(stage.pids(PROCESSES["sender"])), *stage.pids(PROCESSES["maintenance"]))
            _create_contacts(stage)
            time.sleep(6)
        run_again(stage)
    time.sleep(SETTLING)
    ended = time.time()
    refused = Counter(status for status in _create_contacts(stage) if status != 201)
    stage.complaints += [f"{count} requests were answered by {status} afterwards" for status, count in refused.items()]
    return ended


def _create_contacts(stage: Stage) -> list[int]:
    """The statuses of many requests at once, 0 for a connection that was cut."""
    account = stage.accounts[0]
    headers = {"Authorization": f"Bearer {stage.tokens[account.name]}"}
    url = f"{stage.base}/v1/lists/{account.list_id}/contacts"

    def create(_: int) -> int:
        body = {"email": f"other-{uuid.uuid4().hex}@people.example"}
        try:
            return requests.post(url, json=body, headers=headers, timeout=START_WITHIN).status_code
        except requests.RequestException:
            return 0

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(create, range(2 * AT_ONCE)))


@contextlib.contextmanager
def _unwritable(paths: Sequence[Path]) -> Iterator[None]:
    """Nobody may write them inside the block, as far as modes bind."""
    modes = {}
    try:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                if not path.is_socket():
                    modes[path] = path.stat().st_mode
                    path.chmod(modes[path] & WITHOUT_WRITING)
        yield
    finally:
        for path, mode in modes.items():
            with contextlib.suppress(FileNotFoundError):
                path.chmod(mode)


@fault(
    "memory-scarce",
    *(Promise.REFUSAL, Promise.RESUMING, Promise.LOST),
    limits=Limits(doubles_in_flight=True, cuts_requests=True, accepting=RESTART, sending=RESTART),
)
def memory_scarce(stage: Stage, _chance: random.Random) -> float:
    """No process of the service gets a further megabyte for eight seconds, while mails of several megabytes each are to
    be sent."""
    pids = stage.pids("python")
    for pid in pids:
        _limit_memory(pid, _bytes_of(pid) + SPARE)
    end = time.monotonic() + 8
    with ThreadPoolExecutor(LARGE_AT_ONCE) as pool:
        for _ in range(LARGE_AT_ONCE):
            pool.submit(_send_large_mails, stage, end)
    for pid in pids:
        _limit_memory(pid, resource.RLIM_INFINITY)
    return run_again(stage)


def _send_large_mails(stage: Stage, end: float) -> None:
    """Each is accepted or refused with a 503, or its connection is cut."""
    content = base64.b64encode(os.urandom(LARGE)).decode()
    account = stage.accounts[0]
    while time.monotonic() < end:
        address = f"large-{uuid.uuid4().hex}@people.example"
        body = {
            **{"type": "email", "list_id": account.list_id, "group_name": "large mails", "subject": SUBJECT},
            **{"from_name": account.name, "from_address": account.from_address, "body_text": words_for(address)},
            "attachments": [{"type": "application/octet-stream", "name": "large.bin", "content": content}],
            "recipients": [{"email": address}],
        }
        headers = {"Authorization": f"Bearer {stage.tokens[account.name]}"}
        with contextlib.suppress(requests.RequestException):
            url = f"{stage.base}/v1/transactional-sends"
            answer = requests.post(url, json=body, headers=headers, timeout=START_WITHIN)
            if answer.status_code not in (202, 503):
                stage.complaints.append(f"a large mail was answered by {answer.status_code}: {answer.text[:300]}")
        time.sleep(0.1)


def _bytes_of(pid: int) -> int:
    """The size of its address space."""
    with contextlib.suppress(FileNotFoundError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
    return 0


def _limit_memory(pid: int, most: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (most, hard))


def _after_rivals(stage: Stage, _seen: RoundRecord) -> list[str]:
    """Each launcher that was one too many has said so."""
    said = stage.service.output().count("the service already runs in DATA_DIR")
    return [] if said == RIVALS else [f"{said} of {RIVALS} second services said that one runs already"]


@fault("second-service", Promise.FOLDER, Promise.RESUMING, limits=STARTED_AGAIN, afterwards=_after_rivals)
def second_service(stage: Stage, chance: random.Random) -> float:
    """A second service is started on the data folder of the one that runs, twice. Then the first one's launcher is
    killed, and two are started at once: one of them must serve, and the other one end."""
    for port in (stage.service.environment["PORT"], str(free_port())):
        rival = stage.start_rival(PORT=port)
        if rival.wait(START_WITHIN) == 0:
            stage.complaints.append(f"a second service on the folder has ended with status 0, with PORT {port}")
    stage.kill(*stage.pids(PROCESSES["launcher"]))
    stage.service.process.wait()
    began = time.time()
    rival = stage.start_rival()
    time.sleep(chance.uniform(0, 0.2))
    stage.service.begin()
    both = (rival, stage.service.process)
    wait_until(lambda: any(process.poll() is not None for process in both), "one of two launchers ends", START_WITHIN)
    stage.service.follow(next(process for process in both if process.poll() is None))
    wait_until(stage.answers, "the other one serves", START_WITHIN)
    stage.await_workers()
    return began
