"""From the call of a method to the JSON of its answer: body, idempotency key, retries and errors."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any
from urllib.parse import urlencode

from transactional_messaging.errors import ServiceUnreachable, UnexpectedAnswer, error_of
from transactional_messaging.retries import Retries
from transactional_messaging.transport import Answer, Call, NoAnswer, Transport

Json = dict[str, Any]
Pairs = Sequence[tuple[str, str]]
PREFIX = "/v1"
UNDECIDED = frozenset({502, 504})
"""Statuses after which nobody knows whether the request was processed."""


class Caller:
    """Makes requests with one key."""

    def __init__(self, transport: Transport, retries: Retries) -> None:
        self._transport, self._retries = transport, retries

    def get(self, path: str, query: Pairs = ()) -> Json:
        """A resource. `path` begins after `/v1`."""
        return self._json(self._call("GET", path, query))

    def follow(self, link: str) -> Json:
        """The resource of a link of an answer; the key goes to no other server."""
        if not link.startswith(f"{PREFIX}/"):
            raise UnexpectedAnswer(f"A link leads out of the API: {link!r}")
        return self.get(link.removeprefix(PREFIX))

    def post(
        self, path: str, body: Mapping[str, Any] | None = None, query: Pairs = (), idempotency_key: str | None = None
    ) -> Json:
        """The answer to a POST; empty if it has no body. Without a key one is made."""
        key = idempotency_key if idempotency_key is not None else str(uuid.uuid4())
        answer = self._call("POST", path, query, body if body is not None else {}, key)
        return self._json(answer) if answer.body else {}

    def patch(self, path: str, body: Mapping[str, Any]) -> Json:
        """The answer to a PATCH; empty if it has no body."""
        answer = self._call("PATCH", path, body=body)
        return self._json(answer) if answer.body else {}

    def delete(self, path: str, query: Pairs = ()) -> None:
        """Deletes."""
        self._call("DELETE", path, query)

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def _call(
        self, method: str, path: str, query: Pairs = (), body: Mapping[str, Any] | None = None, key: str | None = None
    ) -> Answer:
        headers = {"Idempotency-Key": key} if key is not None else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        target = f"{PREFIX}{path}?{urlencode(query)}" if query else PREFIX + path
        content = json.dumps(body, default=written, allow_nan=False).encode() if body is not None else None
        return self._answered(Call(method, target, content, headers), key)

    def _answered(self, call: Call, key: str | None) -> Answer:
        """The first success. Raises an `ApiError` or `ServiceUnreachable` when there is no further try."""
        tries, undecided = 0, False
        while True:
            tries += 1
            answer = failure = None
            try:
                answer = self._transport.send(call)
            except NoAnswer as error:
                failure = error
            if answer is not None and (answer.is_success or (undecided and is_gone(call, answer))):
                return answer
            undecided = undecided or answer is None or answer.status in UNDECIDED
            wait = None if failure is not None and failure.is_final else self._retries.delay(tries, answer)
            if wait is not None:
                self._retries.sleep(wait)
            elif answer is not None:
                raise error_of(answer)
            else:
                raise ServiceUnreachable(f"{failure} (tried {tries} times)", key) from failure

    @staticmethod
    def _json(answer: Answer) -> Json:
        try:
            found = json.loads(answer.body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UnexpectedAnswer(f"{answer.status} with a body that is no JSON object; is the address the service's?")
        return found


def is_gone(call: Call, answer: Answer) -> bool:
    """Whether the answer says that a DELETE has happened, if one before it got no answer."""
    return call.method == "DELETE" and answer.status == 404


def written(value: object) -> str:
    """Values of list fields that JSON has no form for."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON: {value!r}")
