"""The token of a link identifies a recipient and a target, and cannot be forged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracking.feedback_channels import Instrumenter
from app.tracking.links import InlineLink, StoredLink, link_token, location_header, parse_link_token
from app.tracking.tokens import MAX_TOKEN_LENGTH, OPEN_PURPOSE, recipient_token
from tests.support.cases import each

KEY = "a secret of the tests, long enough to sign"
ids = st.integers(1, 2**63 - 1)
MARKER = Instrumenter("https://mail.acme.example", KEY)


@given(ids, ids)
def test_the_token_of_a_stored_link_is_parsed(recipient_id: int, link_id: int) -> None:
    link = StoredLink(recipient_id, link_id)
    token = link_token(KEY, link)
    assert token
    assert len(token) <= 38
    assert parse_link_token((KEY,), token) == link


@given(ids, st.sampled_from(["html_email", "text_email"]), st.text(max_size=300))
def test_the_token_of_an_inline_link_is_parsed(recipient_id: int, link_type: str, rest: str) -> None:
    link = InlineLink(recipient_id, "html_email" if link_type == "html_email" else "text_email", f"https://{rest}")
    token = link_token(KEY, link)
    assert token
    assert parse_link_token((KEY,), token) == link


def test_a_link_to_a_stored_url_is_short() -> None:
    """A link is short even for the millionth recipient."""
    assert len(link_token(KEY, StoredLink(1_000_000, 1_000_000)) or "") == 24


def test_a_url_that_is_too_long_has_no_token() -> None:
    assert link_token(KEY, InlineLink(1, "html_email", "https://a.example/" + "x" * MAX_TOKEN_LENGTH)) is None
    body = f'<a href="https://a.example/{"x" * MAX_TOKEN_LENGTH}">'
    assert MARKER.with_links(body, "html_email", 1, {}) == body


@each("token", ["", "x", "A" * 24, "A" * MAX_TOKEN_LENGTH, "A" * (MAX_TOKEN_LENGTH + 1), "é" * 30])
def test_any_other_text_is_invalid(token: str) -> None:
    assert parse_link_token((KEY,), token) is None


@given(st.data())
def test_a_changed_token_is_invalid(data: st.DataObject) -> None:
    token = link_token(KEY, InlineLink(5, "html_email", "https://a.example/"))
    assert token
    position = data.draw(st.integers(0, len(token) - 2))
    substitute = data.draw(st.sampled_from("ABCxyz0189-_").filter(lambda character: character != token[position]))
    assert parse_link_token((KEY,), token[:position] + substitute + token[position + 1 :]) is None


def test_tokens_of_other_links_are_invalid() -> None:
    for purpose in (OPEN_PURPOSE, "unsubscribe"):
        assert parse_link_token((KEY,), recipient_token(KEY, purpose, 2**62)) is None
    assert parse_link_token((KEY + "x",), link_token(KEY, StoredLink(1, 1)) or "") is None


def test_links_of_the_service_are_not_tracked() -> None:
    """Opting out is no click."""
    body = "Opt out: https://mail.acme.example/u/abc or https://mail.acme.example/c/abc"
    assert MARKER.with_links(body, "text_email", 1, {}) == body


@pytest.mark.parametrize(
    ("html", "before", "after"),
    [
        ("<p>Hi</p>", "<p>Hi</p>", ""),
        ("<html><BODY><p>Hi</p></BODY></html>", "<html><BODY><p>Hi</p>", "</BODY></html>"),
        ("<body>a</body><body>b</body >", "<body>a</body><body>b", "</body >"),
        ("<p>İİ</p></body>", "<p>İİ</p>", "</body>"),
    ],
)
def test_the_pixel_stands_at_the_end_of_the_body(html: str, before: str, after: str) -> None:
    marked = MARKER.with_pixel(html, 7)
    assert marked.startswith(
        f'{before}<img src="https://mail.acme.example/o/{recipient_token(KEY, OPEN_PURPOSE, 7)}.gif"'
    )
    assert marked.endswith(f">{after}")
    assert 'alt=""' in marked


@each(
    ("url", "sent"),
    [
        ("https://a.example/x?y=%20z&q='(1)#f", "https://a.example/x?y=%20z&q='(1)#f"),
        ("https://a.example/a b", "https://a.example/a%20b"),
        ("https://bücher.example/ü\r\nX: y", "https://xn--bcher-kva.example/%C3%BC%0D%0AX:%20y"),
        ("https://ü@BÜCHER.example:8443?q#f", "https://%C3%BC@xn--bcher-kva.example:8443?q#f"),
        ("http://[no.example/", "http://[no.example/"),
        ("http://no℀.example/", "http://no%E2%84%80.example/"),
    ],
)
def test_the_redirect_leads_to_the_url(url: str, sent: str) -> None:
    """An ASCII URL is not changed, a line break never enters the header, and a malformed URL is no failure."""
    assert location_header(url) == sent
