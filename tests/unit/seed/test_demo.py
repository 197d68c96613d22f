"""The demo contains every feature, and everything in it is valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import app.demo
from app.content.render import Template
from app.content.values import MergedValues
from app.lists.fields import FIELD_TYPES
from app.seed.nouns import ACCOUNT, checked_file
from app.seed.read import read_file

SEED = Path(app.demo.__file__).parent / "seed.yaml"


@pytest.fixture(scope="module")
def account() -> dict[str, Any]:
    """The demo's only account."""
    (demo_account,) = checked_file(read_file(SEED, {"RECEIVER_PORT": "8001"}))["accounts"]
    assert isinstance(demo_account, dict)
    return demo_account


def test_it_uses_every_part_of_a_seed_file(account: dict[str, Any]) -> None:
    unused = {"rate_limit", "track_opens", "track_clicks", "machine_events", "email_priority", "sms_priority"}
    unused |= {"retain_content", "retain_recipients", "retain_captured", "retain_logs", "retain_audit"}
    assert {*ACCOUNT.required, *ACCOUNT.optional} - account.keys() == unused
    used = {field["type"] for list_ in account["lists"] for field in list_["fields"]}
    assert used <= FIELD_TYPES.keys()
    assert len(used) > 15
    assert {key["access_level"] for key in account["keys"]} == {"standard", "limited", "report"}


def test_its_messages_have_no_broken_markup(account: dict[str, Any]) -> None:
    people = [*account["lists"][0]["contacts"][:6], {}]
    for message in account["messages"]:
        for name in ("subject", "body_html", "body_text"):
            template = Template(message.get(name) or "")
            for person in people:
                assert "%%" not in template.html(MergedValues({}, person), {})


def test_its_inline_attachment_is_referred_to(account: dict[str, Any]) -> None:
    (invoice,) = [message for message in account["messages"] if message["name"] == "Invoice"]
    rendered = Template(invoice["body_html"]).html({}, {"logo.png": "content_1", "a.pdf": "content_2"})
    assert "cid:content_1" in rendered
    assert "content_2" not in rendered
    assert "The invoice is attached." in rendered
