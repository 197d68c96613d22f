"""The example of docs/sending.md is a valid send."""

from __future__ import annotations

import json
from pathlib import Path

from app.sends.accept.draft import Limits
from schemas.sends import load_send

PAGE = Path(__file__).parents[3] / "docs" / "sending.md"


def test_the_example_is_accepted() -> None:
    bodies = [part.split("'\n")[0] for part in PAGE.read_text("utf-8").split("-d '")[1:]]
    (body,) = [json.loads(body) for body in bodies if '"attachments"' in body]
    draft = load_send(body, "email", Limits(attachments=20, attachment_bytes=1000))
    assert draft.recipients[0].values == {"first_name": "Ann"}
    assert draft.recipients[0].attachments[0].content == b"100 EUR"
