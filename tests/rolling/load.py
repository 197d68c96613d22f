"""Clients that send without a pause, each request once, and note everything that is not 202."""

from __future__ import annotations

import http.client
import itertools
import json
import select
import threading
import time
import uuid
from dataclasses import dataclass

from tests.support.launched import TOKEN

PATH = "/v1/transactional-sends"
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Clients:
    """How many clients keep their connection, how many open one for each request, and their pause between two."""

    kept: int
    fresh: int
    pause: float


MANY = Clients(kept=3, fresh=3, pause=0.02)
FEW = Clients(kept=1, fresh=1, pause=0.5)


class Load:
    """All clients. `accepted` are the addresses whose send was answered with 202."""

    def __init__(self, port: int, list_id: int, clients: Clients) -> None:
        self.accepted: list[str] = []
        self.refused: list[str] = []
        self._port = port
        self._list_id = list_id
        self._pause = clients.pause
        self._numbers = itertools.count(1)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(keeps,), daemon=True)
            for keeps in [True] * clients.kept + [False] * clients.fresh
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Returns when each client has the response to its last request."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _run(self, keeps: bool) -> None:
        connection = self._connect()
        while not self._stopping.is_set():
            if not keeps or _is_closed(connection):
                connection.close()
                connection = self._connect()
            self._send(connection, f"person-{next(self._numbers)}@people.example")
            time.sleep(self._pause)
        connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)

    def _send(self, connection: http.client.HTTPConnection, address: str) -> None:
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Idempotency-Key": str(uuid.uuid4()),
        }
        try:
            connection.request("POST", PATH, json.dumps(self._body(address)), headers)
            response = connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self.refused.append(f"{address}: {type(error).__name__}: {error}")
            connection.close()
            return
        if response.status == http.client.ACCEPTED:
            self.accepted.append(address)
        else:
            self.refused.append(f"{address}: {response.status} {text[:200]}")

    def _body(self, address: str) -> dict[str, object]:
        return {
            "type": "email",
            "list_id": self._list_id,
            "group_name": "Rolling",
            "subject": "A subject",
            "from_name": "Acme",
            "from_address": "hello@acme.example",
            "body_text": "A body",
            "recipients": [{"email": address}],
        }


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has closed the connection, as every client looks before it uses one that it has kept."""
    return connection.sock is not None and bool(select.select([connection.sock], [], [], 0)[0])
