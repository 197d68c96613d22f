"""What filters of spam look at in a mail, as far as the mail itself tells (docs/console.md#inbox). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.console.inbox.html_facts import HtmlFacts
from app.console.inbox.links import MailLink
from app.transports.email.read_mail import Mail

FEW_WORDS = 20
"""A mail with images and fewer words than this counts as one of images alone."""
LARGE_HTML = 102 * 1024
"""Bytes of HTML from which on some mail programs cut a mail."""
LARGE_MAIL = 10 * 1024 * 1024
"""Bytes of a mail from which on some servers refuse it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and what was found."""

    name: str
    is_good: bool
    found: str


def checks_of(mail: Mail, facts: HtmlFacts, links: Sequence[MailLink]) -> list[Check]:
    """All checks that apply to the mail."""
    of_html = [*_html(mail.html, facts)] if mail.html is not None else []
    return [*_headers(mail), *_text(mail), *of_html, *_links(links), _size(mail)]


def _headers(mail: Mail) -> Iterator[Check]:
    yield _check("Subject", mail.header("Subject"), "there is one", "there is none")
    signed = "it is signed (DKIM)"
    yield _check("Signature", mail.header("DKIM-Signature"), signed, "there is none: the domain has no DKIM key")
    without = "there is no List-Unsubscribe: mails that nobody has asked for one by one need it"
    yield _check("Unsubscribing", mail.header("List-Unsubscribe"), "there is a List-Unsubscribe", without)
    if mail.header("List-Unsubscribe"):
        one_click = "there is a List-Unsubscribe-Post"
        yield _check("Unsubscribing by one click", mail.header("List-Unsubscribe-Post"), one_click, "it is missing")


def _text(mail: Mail) -> Iterator[Check]:
    yield _check("Plain text", (mail.text or "").strip(), "there is a text part", "there is none beside the HTML")


def _html(html: str, facts: HtmlFacts) -> Iterator[Check]:
    only_images = facts.images > 0 and facts.words < FEW_WORDS
    counts = f"{facts.words} words and {facts.images} {'image' if facts.images == 1 else 'images'}"
    yield _check("Text beside images", not only_images, counts, f"{counts}: it looks like an image without a text")
    if facts.images:
        missing = f"{facts.without_alt} of {facts.images} have no alt"
        yield _check("Descriptions of images", not facts.without_alt, "each image has an alt", missing)
    size = len(html.encode("utf-8", "replace"))
    words = f"{-(-size // 1024)} KiB"
    yield _check("Length of the HTML", size < LARGE_HTML, words, f"{words}: some mail programs cut it after 102 KiB")


def _links(links: Sequence[MailLink]) -> Iterator[Check]:
    if not links:
        return
    misleading = next((one for one in links if one.misleads), None)
    found = f"one says {misleading.text} and leads to {misleading.target}" if misleading else ""
    yield _check("Texts of links", misleading is None, "none names another site than it leads to", found)
    plain = sum(one.is_plain_http for one in links)
    yield _check("Links with https", not plain, "all", f"{plain} of {len(links)} lead to http")


def _size(mail: Mail) -> Check:
    words = f"{-(-len(mail.source) // 1024)} KiB"
    return _check("Size", len(mail.source) < LARGE_MAIL, words, f"{words}: some servers refuse more than 10 MiB")


def _check(name: str, is_good: object, good: str, bad: str) -> Check:
    return Check(name, bool(is_good), good if is_good else bad)
