"""Clients of several accounts, each with its own thread, which behave as the documentation advises.

One sends emails, some with attachments, and texts, and one changes contacts, both with an `Idempotency-Key`: what is
refused or cut off they repeat with the same key until it is answered. A third tries each request once, without a key,
so that refused work stays undone. Where automations are to be tested, a fourth creates contacts that enter them, like
the first two.
"""

from __future__ import annotations

import base64
import itertools
import math
import random
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import requests

from app.sends.limits import MAX_RECIPIENTS
from tests.chaos.record import LONG, SUBJECT, Request, RoundRecord, Whole, digest
from tests.chaos.stage import Account, Stage

PATIENCE = 40.0
"""Seconds that a client waits for an answer; the service guarantees one much sooner."""
REPEAT_AFTER = 0.3
GIVE_UP_AFTER = 60.0
"""Seconds for which a request is still repeated after the end of the load."""
PAUSE = (0.02, 0.12)
BURST, BURST_OF_TEXTS = 60, 20
"""Recipients of the first sends of each account, so that there is a backlog."""
WITH_ATTACHMENTS, TEXTS, LONG_TEXTS = 0.2, 0.3, 0.25
"""Shares of the sends, the last one of those of texts."""
ATTACHED = (1, 40_000)
"""The least and the greatest size of an attachment, in bytes."""
KEPT_SHARE, CHANGES = 0.5, 3
"""Share of the changed contacts that are kept, and how often each of them is changed."""
SENDS = "/v1/transactional-sends"


class Load:
    """All clients of a round; they record into `seen`."""

    def __init__(
        self, stage: Stage, chance: random.Random, slowly: float = 1.0, *, with_automations: bool = False
    ) -> None:
        self.seen = RoundRecord()
        self._slowly = slowly
        self._stage = stage
        self._stopping = threading.Event()
        self._end = math.inf
        self.numbers = itertools.count(1)
        works = ("send", "change", "try_once", *(("enter",) if with_automations else ()))
        self._threads = [
            threading.Thread(target=self._run, args=(account, work, chance.random()), daemon=True)
            for account in stage.accounts
            for work in works
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs all clients until the end of the block, or until it is stopped."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self.stop(0)

    def pile_up(self, count: int, chance: random.Random) -> None:
        """Each account sends to so many people, as many at once as a request may have."""
        for account in self._stage.accounts:
            client = Client(self, account, chance)
            for done in range(0, count, MAX_RECIPIENTS):
                client.send(min(MAX_RECIPIENTS, count - done))

    def stop(self, patience: float = GIVE_UP_AFTER) -> None:
        """Returns when each client has the response to its last request, or has given up."""
        self._end = time.monotonic() + patience
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    @property
    def base(self) -> str:
        """The base URL of the API."""
        return self._stage.base

    @property
    def tokens(self) -> Mapping[str, str]:
        """Account -> the key that its clients use now."""
        return self._stage.tokens

    def gives_up(self) -> bool:
        """Whether the time is over in which requests are still repeated."""
        return time.monotonic() > self._end

    def is_accepted_since(self, moment: float) -> bool:
        """Whether a request that began after the moment succeeded."""
        recent = (request for request in reversed(tuple(self.seen.requests)) if request.began >= moment)
        return any(request.status is not None and request.status < 300 for request in recent)

    def _run(self, account: Account, work: str, seed: float) -> None:
        chance = random.Random(seed)
        client = Client(self, account, chance)
        if work == "send":
            client.send(BURST)
            client.send_texts(BURST_OF_TEXTS)
        while not self._stopping.is_set():
            match work:
                case "send" if chance.random() < TEXTS:
                    client.send_texts(chance.randint(1, 4))
                case "send":
                    client.send(chance.randint(1, 4))
                case "change":
                    client.change_a_contact()
                case "enter":
                    client.enter(chance.randint(1, 4))
                case _:
                    client.try_once(chance.randint(2, 20))
            self._stopping.wait(self._slowly * chance.uniform(*PAUSE))


class Client:
    """The requests of one thread for one account."""

    def __init__(
        self,
        load: Load,
        account: Account,
        chance: random.Random,
    ) -> None:
        self._chance = chance
        self._seen = load.seen
        self._gives_up = load.gives_up
        self._base = load.base
        self._account = account
        self._numbers = load.numbers
        self._session = requests.Session()
        self._tokens = load.tokens

    def send(self, count: int) -> None:
        """A send to new people, repeated until it is accepted; some have an attachment for all recipients and one for
        each."""
        addresses = self._addresses(count)
        body, digests = self._body(addresses, f"group of {self._account.name}"), {}
        if self._chance.random() < WITH_ATTACHMENTS:
            for_all = self._bytes()
            body["attachments"] = [_attachment("terms.bin", for_all)]
            for address, recipient in zip(addresses, body["recipients"], strict=True):
                own_content = self._bytes()
                recipient["attachments"] = [_attachment("invoice.bin", own_content)]
                digests[address] = digest((for_all, own_content))
        self._send(body, addresses)
        self._seen.attached.update(digests)

    def send_texts(self, count: int) -> None:
        """A send of texts to new people, repeated until it is accepted."""
        mobiles = [f"6141{next(self._numbers):07d}" for _ in range(count)]
        self._send(self._text_body(mobiles, f"texts of {self._account.name}"), mobiles)

    def _send(self, body: Mapping[str, Any], addresses: list[str]) -> None:
        answer = self._until_answered("POST", SENDS, body, "send")
        if answer is not None:
            uuids = [recipient["uuid"] for recipient in answer["_embedded"]["recipients"]]
            self._seen.accepted.update(zip(addresses, uuids, strict=True))
            self._seen.answered.update(dict.fromkeys(addresses, time.time()))

    def _bytes(self) -> bytes:
        return self._chance.randbytes(self._chance.randint(*ATTACHED))

    def change_a_contact(self) -> None:
        """Creates a contact, and changes it several times or deletes it after a change."""
        chain = self._seen.chains.setdefault(self._account.name, [])
        (address,) = self._addresses(1)
        created = self._until_answered("POST", self._contacts, {"email": address}, "create")
        if created is None:
            return
        chain.append((created["id"], "created"))
        path = f"{self._contacts}/{created['id']}"
        is_kept = self._chance.random() < KEPT_SHARE
        for number in range(1, 1 + (CHANGES if is_kept else 1)):
            name = f"Ann {number}"
            self._seen.values.pop((self._account.name, address), None)  # either, until it is answered
            if self._until_answered("PATCH", path, {"first_name": name}, "updated") is None:
                return
            chain.append((created["id"], "updated"))
            self._seen.values[self._account.name, address] = name
        if not is_kept:
            del self._seen.values[self._account.name, address]
            if self._until_answered("DELETE", path, None, "deleted") is not None:
                chain.append((created["id"], "deleted"))

    def enter(self, count: int) -> None:
        """Creates contacts that enter an automation, one alone or several in bulk."""
        addresses = self._addresses(count)
        people = [_person(address) for address in addresses]
        path = f"/v1/lists/{self._account.series_id}/contacts"
        body: Any = {"contacts": people} if count > 1 else people[0]
        if self._until_answered("POST", path, body, "enter") is not None:
            self._seen.entered += [(self._account.name, address) for address in addresses]

    def try_once(self, count: int) -> None:
        """A send or a change of many contacts, without a repetition."""
        addresses = self._addresses(count)
        if count % 2:
            name, path, body = "send", SENDS, self._body(addresses, f"tried once by {self._account.name}")
        else:
            name, path, body = "contacts", self._contacts, {"contacts": [_person(address) for address in addresses]}
        request, _ = self._request("POST", path, body, f"{name} once", {})
        kind: Any = name
        if name == "contacts" and request.status is not None and request.status < 300:
            self._seen.values |= {
                (self._account.name, address): _person(address)["first_name"] for address in addresses
            }
        self._seen.tried_once.append(Whole(kind, self._account.name, request.status, tuple(addresses)))

    def _until_answered(self, method: str, path: str, body: Any, kind: str) -> Any:
        """The body of the response, {} if it is empty; None if there was no response."""
        key = str(uuid.uuid4())
        headers = {"Idempotency-Key": key} if method == "POST" else {}
        tries = itertools.count()
        while not self._gives_up():
            repeated = next(tries) > 0
            request, answer = self._request(method, path, body, kind, headers)
            request.key = key
            if request.status is not None and request.status < 300:
                return answer
            if repeated and method == "DELETE" and request.status == 404:
                return {}  # the response to an earlier attempt was lost
            time.sleep(REPEAT_AFTER)
        self._seen.never_answered.append(f"{method} {path} {key}")
        return None

    def _request(self, method: str, path: str, body: Any, kind: str, headers: Mapping[str, str]) -> tuple[Request, Any]:
        request = Request(self._account.name, kind, time.time())
        answer: Any = {}
        try:
            authorized = {**headers, "Authorization": f"Bearer {self._tokens[self._account.name]}"}
            response = self._session.request(method, self._base + path, json=body, headers=authorized, timeout=PATIENCE)
            request.status = response.status_code
            request.retry_after = response.headers.get("Retry-After")
            with suppress(ValueError):
                answer = response.json()
            if response.status_code >= 300:
                request.trouble = (answer.get("developer_message") or response.text)[:200]
        except requests.Timeout as error:
            request.silent, request.trouble = True, str(error)
        except requests.RequestException as error:
            request.trouble = f"{type(error).__name__}: {error}"
        request.ended = time.time()
        self._seen.requests.append(request)
        return request, answer

    def _addresses(self, count: int) -> list[str]:
        return [f"{self._account.name}-{next(self._numbers)}@people.example" for _ in range(count)]

    @property
    def _contacts(self) -> str:
        return f"/v1/lists/{self._account.list_id}/contacts"

    def _body(self, addresses: list[str], group: str) -> dict[str, Any]:
        return {
            "type": "email",
            "list_id": self._account.list_id,
            "group_name": group,
            "subject": SUBJECT,
            "from_name": self._account.name,
            "from_address": self._account.from_address,
            "body_text": "This is for %%token%%.",
            "recipients": [{"email": address, "token": address.partition("@")[0]} for address in addresses],
        }

    def _text_body(self, mobiles: list[str], group: str) -> dict[str, Any]:
        return {
            "type": "sms",
            "list_id": self._account.list_id,
            "group_name": group,
            "from_address": self._account.number,
            "unsubscribe_type": "none",
            "body_text": "This is for %%token%%." + (LONG if self._chance.random() < LONG_TEXTS else ""),
            "recipients": [{"mobile": mobile, "token": mobile} for mobile in mobiles],
        }


def _person(address: str) -> dict[str, str]:
    return {"email": address, "first_name": address.partition("@")[0]}


def _attachment(name: str, content: bytes) -> dict[str, str]:
    return {"type": "application/octet-stream", "name": name, "content": base64.b64encode(content).decode()}
