"""Which addresses are magic (docs/testing.md#magic-addresses)."""

from __future__ import annotations

import re
from pathlib import Path

from app.addresses import is_valid_email, is_valid_mobile
from app.inbox.magic import DOMAIN, EMAILS, MOBILES, Magic, magic_of
from tests.support.cases import each

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text("utf-8")


def test_the_table_of_the_page_has_all_of_them() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
    assert rows == [*(f"{name}@{DOMAIN}" for name in EMAILS), *MOBILES]


def test_sends_may_go_to_them() -> None:
    assert [name for name in EMAILS if not is_valid_email(f"{name}@{DOMAIN}")] == []
    assert [number for number in MOBILES if not is_valid_mobile(number)] == []


@each(
    ("address", "magic"),
    [
        ("bounce@simulator.test", Magic.BOUNCE),
        ("Soft-Bounce+Run 7+8@SIMULATOR.test", Magic.SOFT_BOUNCE),
        ("bounces@simulator.test", None),
        ("bounce@simulator.test.example", None),
        ("bounce@mail.simulator.test", None),
        ("rejected@simulator.test", None),
        ("447700900001@simulator.test", None),
    ],
)
def test_the_local_part_before_a_plus_counts(address: str, magic: Magic | None) -> None:
    assert magic_of("email", address) is magic


def test_numbers_are_magic_for_text_messages_only() -> None:
    assert magic_of("sms", "447700900006") is Magic.SLOW
    assert magic_of("sms", "447700900999") is None
    assert magic_of("sms", "slow@simulator.test") is None
