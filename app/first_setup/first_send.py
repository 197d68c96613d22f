"""The command line that sends a mail, as an operator can paste it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any


def curl(public_url: str, token: str, body: Mapping[str, Any]) -> str:
    """A `curl` command that makes a send."""
    return " \\\n".join(
        [
            f"  curl {public_url}/v1/transactional-sends",
            f"    -H 'Authorization: Bearer {token}'",
            "    -H 'Content-Type: application/json'",
            f"    -d {shlex.quote(json.dumps(body))}",
        ]
    )


def first_mail(list_id: int, to: str) -> dict[str, Any]:
    """The body of a send that needs nothing but a list: the account's sender, and words of its own."""
    return {
        "type": "email",
        "list_id": list_id,
        "group_name": "First steps",
        "subject": "It works",
        "body_text": "This is the first mail of the new service.",
        "recipients": [{"email": to}],
    }
