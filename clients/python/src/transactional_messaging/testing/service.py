"""The service in memory: it answers the requests of a client."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from transactional_messaging.client import Client
from transactional_messaging.retries import Retries
from transactional_messaging.testing.contact_requests import ContactRequests
from transactional_messaging.testing.querying import envelope
from transactional_messaging.testing.refusals import Problem, Refusal, json_answer
from transactional_messaging.testing.send_requests import SendRequests
from transactional_messaging.testing.sent import SentMessage
from transactional_messaging.testing.store import Json, Store
from transactional_messaging.transport import Answer, Call

SCOPES = (
    "report.view,message.view,list.view,contact.view,contact.create,contact.update,contact.delete,send.email,send.sms"
)
CONTACTS = re.compile(r"/v1/lists/(\d+)/contacts(?:/(\d+))?")
SENDS = re.compile(r"/v1/transactional-sends(?:/([\w-]+))?(/cancel)?")
ITEM = re.compile(r"(/v1/[\w-]+)/(\d+)(/content)?")
EMPTY = {"/v1/automations": "automations", "/v1/inbox": "messages", "/v1/suppressions": "suppressions"}


class FakeService:
    """A service in memory. `sent` has each recipient of accepted sends, in order; `calls` has all requests."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._store = Store()
        self._contacts, self._sends = ContactRequests(self._store), SendRequests(self._store)
        self._failures: list[tuple[Refusal, float | None]] = []
        self._answers: dict[str, tuple[Call, Answer]] = {}

    @property
    def sent(self) -> list[SentMessage]:
        """Every recipient of an accepted send."""
        return self._sends.sent

    def client(self) -> Client:
        """A client of this service, whose retries do not wait."""
        return Client(transport=self, retries=Retries(sleep=lambda _seconds: None))

    def add_list(self, name: str, fields: Iterable[str] = ()) -> int:
        """Adds a list whose contacts have an email, a mobile and these fields; returns its id."""
        return self._store.add_list(name, fields)

    def add_message(self, name: str, type: str = "email", **texts: str | None) -> int:
        """Adds a stored message with a subject, `body_text` and so on; returns its id."""
        return self._store.add_message(name, type, texts)

    def fail(self, status: int, code: str | None = None, *, times: int = 1, retry_after: float | None = None) -> None:
        """Lets the next requests fail, with the service's code for the status or with another."""
        refusal = Refusal(status, [Problem(code)] if code else ())
        self._failures += [(refusal, retry_after)] * times

    def settle(self, uuid: str, state: str, reason: str | None = None) -> None:
        """Sets what became of a recipient; a sent one is `delivered` (email) or `sent` (sms) until then."""
        self._sends.settle(uuid, state, reason)

    def send(self, call: Call) -> Answer:
        """Answers a request: this makes it a transport of a client."""
        self.calls.append(call)
        if self._failures:
            refusal, retry_after = self._failures.pop(0)
            return refusal.answer(call, retry_after)
        try:
            return self._once(call)
        except Refusal as refusal:
            return refusal.answer(call)

    def close(self) -> None:
        """Nothing is open."""

    def _once(self, call: Call) -> Answer:
        key = call.headers.get("Idempotency-Key")
        if key in self._answers:
            first, answer = self._answers[key]
            if (first.path, first.body) != (call.path, call.body):
                raise Refusal(409)
            return Answer(answer.status, answer.body, {**answer.headers, "idempotent-replayed": "true"})
        answer = self._answered(call)
        if key is not None:
            self._answers[key] = call, answer
        return answer

    def _answered(self, call: Call) -> Answer:
        path, _, text = call.path.partition("?")
        query = parse_qsl(text, keep_blank_values=True)
        body: Json = json.loads(call.body) if call.body else {}
        if match := CONTACTS.fullmatch(path):
            list_id, contact_id = (int(part) if part else None for part in match.groups())
            return self._contacts.answer(call.method, list_id or 0, contact_id, query, body)
        if match := SENDS.fullmatch(path):
            return self._sends.answer(call.method, match[1], query, body, cancels=match[2] is not None)
        if call.method != "GET":
            raise Refusal(405)
        return json_answer(self._read(path, query))

    def _read(self, path: str, query: list[tuple[str, str]]) -> Mapping[str, Any]:
        if path.rstrip("/") == "/v1":
            times = {"access_token_creation_time": "2026-01-31T10:00:00Z", "access_token_expiry_time": None}
            return {"access_token_scope": SCOPES, **times, "_links": {"self": {"href": "/v1/"}}}
        store = self._store
        rows = {"/v1/lists": store.lists, "/v1/messages": store.messages, "/v1/transactional-groups": store.groups}
        if path.startswith("/v1/tags/"):
            return self._sends.counts_of_tag(unquote(path.removeprefix("/v1/tags/")))
        if path in EMPTY:
            return envelope(path, EMPTY[path], [], query)
        if path in rows:
            return envelope(path, path.rpartition("/")[2], rows[path].values(), query)
        if path.endswith("/sent-contacts"):
            return envelope(path, "sent-contacts", [], query)
        match = ITEM.fullmatch(path)
        found = (store.contents if match[3] else rows.get(match[1], {})).get(int(match[2])) if match else None
        if found is None:
            raise Refusal(404)
        return found
