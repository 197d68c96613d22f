"""What a dry run rendered is what the transport gets (docs/sending.md#dry-run)."""

from __future__ import annotations

import json
import re
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app.sends.delivery.drain import drain
from app.tracking.feedback_channels import DRY_RUN
from tests.support.client import SENDS
from tests.support.sends import SendsApi, file
from tests.support.tenants import new_email, new_mobile, new_tenant

# What follows a token must be no character of one.
PIECES = (
    *("%%first_name%%", "%%first_name**friend%%", "%%code%%", "%%nothing%%", "%%nothing**a & b%%", "%%email%%"),
    *("%%code:HAS%%", "%%code:ELSE%%", "%%code:END%%", "%%score:GREATERTHAN:5%%", "%%score:END%%", "%%score:FROBS:1%%"),
    *("%%first name%%", "%%", "<p>", "</p>", "&amp;", "é €", "😀", "\r\n", ".", " STOP ", "words of a text, "),
    *("%%unsubscribe_link%%|", "%%attachment:a.txt%%|", "<img src='%%attachment:a.txt%%'>", "%%attachment:b.txt%%"),
    *("<a href='https://acme.example/?q=%%code%%'>link</a>", "%%is_active%% %%creation_time%%"),
)
BODIES = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
# Not with a token, which an encoded word would hide.
SUBJECTS = st.lists(st.sampled_from([one for one in PIECES if "link" not in one and "attachment" not in one])).map(
    "".join
)
VALUES = st.sampled_from(["", "7", "3.50", "<b>Ann & co</b>", "x\r\ny", "Zoë", "%%code%%"])
OWN = st.dictionaries(st.sampled_from(["first_name", "code", "score", "SCORE"]), VALUES, max_size=3)
SHOWN_IN_THE_MAIL = ("From", "To", "Reply-To", "Subject", "List-Unsubscribe", "List-Unsubscribe-Post", "MIME-Version")
TOKENS = re.compile(r"(?<=/u/)[\w-]+|(?<=unsubscribe\+)\w+|(?<=content_)\w+", re.ASCII)


def comparable(text: str | None) -> str | None:
    """The text without what differs from message to message: tokens and Content-IDs."""
    return None if text is None else TOKENS.sub("…", text.replace(DRY_RUN, "…"))


@pytest.fixture(scope="module")
def sender(app: Flask) -> SendsApi:
    """An account with a list, and with two contacts of different values."""
    api = SendsApi(new_tenant(app))
    for name in ("first", "second"):
        api.tenant.new_contact(api.list_id, email=f"{name}@{api.tenant.domain}", first_name=name, score=len(name))
    return api


def both(sender: SendsApi, body: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str], Path]:
    """The forecasts of a dry run, and the uuids of the send that follows, which is delivered, with its folder."""
    answer = sender.tenant.api.post(f"{SENDS}?dry_run=true", body)
    assert answer.status_code == 200, answer.text
    accepted = sender.send(body)
    drain(sender.tenant.services)
    settings = sender.tenant.services.settings
    url = settings.email_transport_url if body["type"] == "email" else settings.sms_transport_url
    return answer.get_json()["_embedded"]["recipients"], accepted.uuids, Path(urlsplit(url).path)


def raw_headers(mail: bytes) -> list[dict[str, str]]:
    lines = mail.partition(b"\r\n\r\n")[0].decode().replace("\r\n ", " ").split("\r\n")
    pairs = [line.partition(": ")[::2] for line in lines]
    return [{"name": name, "value": value} for name, value in pairs]


def check_mail(forecast: dict[str, Any], path: Path) -> None:
    mail = path.read_bytes()
    parsed: Any = message_from_bytes(mail, policy=policy.default)
    for part, shown in (("plain", forecast["body_text"]), ("html", forecast["body_html"])):
        found = parsed.get_body((part,))
        sent = None if found is None else found.get_content().replace("\r\n", "\n").removesuffix("\n")
        expected = shown and shown.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
        assert comparable(sent) == comparable(expected), part
    names = {header["name"] for header in forecast["headers"]}
    assert names <= {*SHOWN_IN_THE_MAIL, "Auto-Submitted"}
    sent_headers = [
        {**header, "value": comparable(header["value"])} for header in raw_headers(mail) if header["name"] in names
    ]
    assert sent_headers == [{**header, "value": comparable(header["value"])} for header in forecast["headers"]]
    assert {"From", "To", "Subject"} <= names
    assert str(parsed["Subject"]).split() == forecast["subject"].split()


PROPERTY = hypothesis_settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@PROPERTY
@given(html=BODIES, text=BODIES, subject=SUBJECTS, encoded=st.booleans(), own=st.lists(OWN, min_size=3, max_size=3))
def test_what_a_dry_run_rendered_is_the_mail_that_leaves(
    sender: SendsApi, *, html: str, text: str, subject: str, encoded: bool, own: list[dict[str, str]]
) -> None:
    domain = sender.tenant.domain
    recipients = [
        {"email": f"first@{domain}", **own[0], "attachments": [file("a.txt")]},
        {"email": f"second@{domain}", **own[1]},
        {"email": new_email("new"), **own[2]},
    ]
    body = sender.email(
        subject=f"S {subject}",
        body_html=f"{html}!",
        body_text=f"{text}!",
        recipient_data_html_encoded=encoded,
        track_opens=False,
        track_clicks=False,
        recipients=recipients,
    )
    forecasts, uuids, folder = both(sender, body)
    assert [one["creates_contact"] for one in forecasts] == [False, False, True]
    for forecast, uuid in zip(forecasts, uuids, strict=True):
        # A contact that the send created has a time of its own: the second in which it was created.
        if "creation_time" not in html + text + subject or not forecast["creates_contact"]:
            check_mail(forecast, folder / f"{uuid}.eml")


@PROPERTY
@given(text=BODIES, own=OWN, opt_out=st.sampled_from(["word", "link", "none"]))
def test_what_a_dry_run_rendered_is_the_text_message_that_leaves(
    sender: SendsApi, text: str, own: dict[str, str], opt_out: str
) -> None:
    body = sender.sms(body_text=f"STOP {text}", unsubscribe_type=opt_out, recipients=[{"mobile": new_mobile(), **own}])
    (forecast,), (uuid,), folder = both(sender, body)
    sent = json.loads((folder / f"{uuid}.json").read_text("utf-8"))
    if "creation_time" not in text:
        assert comparable(sent["text"]) == comparable(forecast["body_text"])
    assert (sent["to"], sent["from"]) == (forecast["mobile"], body["from_address"])
    # The link of the opt-out is a few characters shorter as long as the ids of recipients are small.
    assert forecast["segments"] - sent["segments"] in ({0, 1} if opt_out == "link" or "link" in text else {0})


def test_the_size_is_that_of_the_mail_with_attachments_tracking_and_signature(sender: SendsApi) -> None:
    links = " ".join(f"https://acme.example/{number}" for number in range(10))
    body = sender.email(
        body_html="".join(f"<a href='{link}'>x</a>" for link in links.split()),
        body_text=links,
        attachments=[file("big.bin", "application/octet-stream", b"x" * 50_000)],
    )
    (forecast,), (uuid,), folder = both(sender, body)
    sent = len((folder / f"{uuid}.eml").read_bytes())
    assert forecast["size"] > 65_000
    assert abs(forecast["size"] - sent) < 8 * 23, "ids in 20 tracked links, the pixel and two unsubscribe links"
