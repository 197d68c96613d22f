"""The most expensive content that the service accepts: requests of few bytes that cause much work or much output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from bench.contacts import Shop
from bench.load import request

BODY = 1024 * 1024
"""The maximum bytes of a body (docs/sending.md#attributes)."""
VALUE = 10_000
"""The maximum characters of a value (docs/sending.md#wildcard-values)."""


def _filled(piece: str) -> str:
    return piece * (BODY // len(piece.encode()))


def _sources() -> Mapping[str, tuple[dict[str, str], dict[str, str]]]:
    """Name -> the attributes of the send, and the values of each recipient."""
    links = "".join(f"http://a.example/{number:x}/%%v%% " for number in range(30_000))
    return {
        "spaces": ({"body_html": "<pre>" + "%%v%%" * 20}, {"v": " " * VALUE}),
        "wildcards": ({"body_html": _filled("%%v%%")}, {"v": "<i>"}),
        "large values": ({"body_html": "%%v%%" * 200, "body_text": "%%v%%" * 200}, {"v": '"=<é' * (VALUE // 4)}),
        "beyond the bound": ({"body_html": "%%v%%" * 10_000}, {"v": "&" * VALUE}),
        "tags": ({"body_html": _filled("<b><a href=http://a.example/>%%v%%")}, {"v": "x"}),
        "attributes": ({"body_html": "<a " + "a=1 " * (BODY // 4 - 10) + ">%%v%%"}, {"v": "x"}),
        "brackets": ({"body_text": "http://a" + "(" * 300_000 + "%%v%%" + ")" * 300_000}, {"v": "x"}),
        "links": ({"body_html": "%%v%%", "body_text": links[: BODY - 10]}, {"v": "x"}),
        "conditions": ({"body_html": _filled("%%v:HAS%%x%%v:ELSE%%y%%v:END%%")}, {"v": "x" * VALUE}),
        "subject": ({"body_html": "%%v%%", "subject": "%%v%%" * 6}, {"v": "é " * (VALUE // 2)}),
        "lines": ({"body_text": _filled("=\n.From é%%v%%")}, {"v": "\n"}),
    }


def hostile_requests(shop: Shop) -> list[bytes]:
    """One send of each kind to 100 recipients."""
    return [
        request("POST", "/v1/transactional-sends", shop.token, _body(shop, *source)) for source in _sources().values()
    ]


def _body(shop: Shop, bodies: dict[str, str], values: dict[str, str]) -> bytes:
    recipients = [{"email": f"hostile{number}@customers.example", **values} for number in range(100)]
    body: dict[str, Any] = {
        "type": "email",
        "list_id": shop.list_id,
        "group_name": "Hostile",
        "subject": "Hello",
        "from_name": "Bench",
        "from_address": "hello@bench.example",
        "track_opens": True,
        "track_clicks": True,
        "recipients": recipients,
        **bodies,
    }
    return orjson.dumps(body)
