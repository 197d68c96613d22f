"""Errors of the fake, in the form of the service's."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from transactional_messaging.transport import Answer, Call

TYPES = {
    400: "invalid_request",
    401: "api_key_invalid",
    403: "permission_denied",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    422: "validation_error",
    429: "too_many_requests",
    503: "service_unavailable",
}


@dataclass(frozen=True)
class Problem:
    """One error of a request, and where it is."""

    code: str
    where: Mapping[str, Any] = field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        """As an element of a list of errors."""
        name = self.where.get("field") or "The request"
        return {
            "code": self.code,
            "message": "Please check the details.",
            "developer_message": f"{name}: {self.code}.",
            **self.where,
        }


class Refusal(Exception):
    """An answer that is an error. `more` are further properties of its body."""

    def __init__(self, status: int, problems: Sequence[Problem] = (), **more: Any) -> None:
        super().__init__(status)
        self.status, self.problems, self.more = status, [*problems] or [Problem(TYPES[status])], more

    def answer(self, call: Call, retry_after: float | None = None) -> Answer:
        """The answer to the request."""
        shown = [problem.shown() for problem in self.problems]
        path = call.path.partition("?")[0]
        body = {
            "id": uuid.uuid4().hex,
            "method": call.method,
            "status": self.status,
            "type": TYPES[self.status],
            **shown[0],
            **self.more,
            "timestamp": text_of_now(),
            "_links": {"self": {"href": path}, "error": {"href": f"/docs/errors/{TYPES[self.status]}"}},
        }
        if len(shown) > 1:
            body["_embedded"] = {"errors": shown}
        headers = {"x-request-id": str(body["id"])}
        if retry_after is not None:
            headers["retry-after"] = f"{retry_after:g}"
        return json_answer(body, self.status, headers)


def invalid(code: str, field: str, **where: Any) -> Problem:
    """An invalid value."""
    return Problem(code, {"field": field, **where})


def text_of_now() -> str:
    """The present time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def json_answer(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer with a JSON body."""
    return Answer(status, json.dumps(body).encode(), headers or {})
