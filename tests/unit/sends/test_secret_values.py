"""What belongs to a secret value, and what is masked (docs/secret-values.md)."""

from __future__ import annotations

import pytest

from app.secret_keys import SecretUnreadable
from app.sends.secret_values import MAX_PIECES, SecretValues, encrypt_values, without_secrets
from tests.support.cases import each

KEY = "a secret key of at least 32 characters"
LINK = "https://acme.example/reset?token=9f2c"


@each(
    ("value", "url", "expected"),
    [
        (LINK, LINK, True),
        (LINK, f"{LINK}&x=1", True),
        (LINK, "https://acme.example/", False),
        ("9f2c", LINK, True),
        ("https://acme.example/?a=1&amp;b=2", "https://acme.example/?a=1&b=2", True),
        (f'<a href="{LINK}">Reset</a>', LINK, True),
        (f"Use {LINK}.", LINK, True),
        ("two words", "https://acme.example/?q=two", True),
        ("9f(2)c", "https://acme.example/?q=9f%282%29c", True),
        ("9f)2c", "https://acme.example/?q=9f", True),
        ("9f(2)c", "https://acme.example/2c", False),
        (f"Reset here ({LINK})", LINK, True),
        (f"[Reset]({LINK})", LINK, True),
        (f"[Reset]({LINK}).", LINK, True),
        ("[Reset](https://acme.example?t=qwerty)", "https://acme.example?t=qwerty", True),
        ("[Reset](acmeapp://qwerty)", "acmeapp://qwerty", True),
        (f"[account]({LINK})", "https://acme.example/account/help", False),
        ("[Reset](https://u9f2c:pass@acme.example/)", "https://u9f2c:pass@acme.example/", True),
        ("[Reset](https://9f2c3d.acme.example)", "https://9f2c3d.acme.example", True),
        (f"{LINK}…", LINK, True),
        (f"„{LINK}“。", LINK, True),
        (f"（{LINK}）", LINK, True),
        ("", "https://acme.example/", False),
        (" ".join(f"word{number}" for number in range(MAX_PIECES + 1)), "https://other.example/", True),
    ],
)
def test_a_link_is_not_tracked_if_a_part_of_a_value_is_in_it(value: str, url: str, expected: bool) -> None:
    assert SecretValues({"x": value}).may_be_in(url) is expected


@each(
    ("value", "text", "expected"),
    [
        ("4711", "550 no code 4711, please", "550 no code ••••, please"),
        ("two words", "550 two\r\n words", "550 ••••\r\n ••••"),
        ("9f(2)c", "550 5.2.1 9f(2)c is no such account", "550 5.2.1 •••• is no such account"),
        ("(4711)", "550 no code 4711", "550 no code ••••"),
        (f"[Reset]({LINK})", f"554 blocked: {LINK}", "554 blocked: ••••"),
        (f"[Reset]({LINK})", "421 4.4.2 Connection Reset by peer", "421 4.4.2 Connection Reset by peer"),
        ("[my account](https://acme.example)", "421 no account here", "421 no account here"),
        ("x(correcthorse)", "550 correcthorse is no such account", "550 •••• is no such account"),
        ("a/b(c)d", "554 blocked: https://acme.example/r?t=a/b%28c%29d", "••••"),
        ("a/b", "554 blocked: https://acme.example/r?t=a%2fb", "••••"),
        (
            "tok)en123",
            "554 blocked: https://acme.example/r?t=tok%29en123",
            "554 blocked: https://acme.example/r?t=••••",
        ),
        ("a&b/c", "554 blocked: https://acme.example/r?t=a%26b%2Fc", "554 blocked: https://acme.example/r?t=••••"),
        ("", "550 no", "550 no"),
        (" ".join(f"word{number}" for number in range(MAX_PIECES + 1)), "550 word1", "••••"),
    ],
)
def test_a_text_that_quotes_a_value_is_masked(value: str, text: str, expected: str) -> None:
    assert SecretValues({"x": value}).mask(text) == expected


def test_they_belong_to_one_recipient_and_to_the_names_in_its_row() -> None:
    values, names = {"name": "Ann", "#Code": "4711"}, frozenset({"code", "other"})
    assert without_secrets(values, names) == {"name": "Ann", "#Code": None}
    stored = encrypt_values(KEY, "uuid-1", values, names)
    assert stored is not None
    assert "4711" not in stored
    secret_values = SecretValues.decrypted((KEY,), "uuid-1", stored, ["#Code"])
    assert (secret_values.values, "4711" in repr(secret_values)) == ({"#Code": "4711"}, False)
    for keys, uuid, row_names in (
        ((KEY,), "uuid-2", ["#Code"]),
        ((KEY,), "uuid-1", ["name"]),
        ((KEY + "x",), "uuid-1", ["#Code"]),
    ):
        with pytest.raises(SecretUnreadable):
            SecretValues.decrypted(keys, uuid, stored, row_names)
    assert encrypt_values(KEY, "uuid-1", {"name": "Ann"}, names) is None
