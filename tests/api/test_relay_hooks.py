"""Relay hooks over HTTP: which requests count, and their effects (docs/relay-hooks.md)."""

from __future__ import annotations

import base64
import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from app import create_app
from app.clock import now
from app.db.models import BlockedAddress
from app.http.context import EXTENSION
from app.inbound.hooks import ses as ses_module
from app.inbound.hooks import take
from app.inbound.hooks.registry import RELAY_HOOKS, RelayHookError
from app.inbound.hooks.ses import SesHook
from app.settings import Settings
from app.tracking.tokens import return_path
from tests.support.apps import app_with
from tests.support.client import Client
from tests.support.plugins import install
from tests.support.relay_replies import BLOCKS, PERMANENT, relay_replies
from tests.support.relay_samples import (
    CERTIFICATE,
    HOST,
    REPLY,
    TOPIC,
    Amazon,
    Mail,
    mailgun,
    mailgun_event,
    postmark,
    ses,
    sparkpost,
)
from tests.support.rows import FROM, Rows
from tests.support.servers import PATIENCE, wait_until
from tests.support.tenants import new_email, new_tenant

SECRET = "a-secret-of-the-relays"
BASIC = {"Authorization": "Basic " + base64.b64encode(f"anybody:{SECRET}".encode()).decode()}
SECRETS = {f"{name}_webhook_secret": SECRET for name in ("postmark", "sparkpost")} | {"mailgun_signing_key": SECRET}


@pytest.fixture(scope="module")
def hooked(settings: Settings) -> Iterator[Flask]:
    """An application with all hooks configured."""
    with app_with(settings, **SECRETS, ses_topics=(TOPIC,)) as app:
        yield app


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine is no large batch, and no time in which a certificate may be fetched again."""
    monkeypatch.setattr(take, "TIME_LIMIT", PATIENCE)
    monkeypatch.setattr(ses_module, "RETRY_SECONDS", 3600.0)


@pytest.fixture(scope="module")
def key() -> Amazon:
    """One stand-in for Amazon serves the whole module, because its key takes a moment to make."""
    return Amazon()


@pytest.fixture
def amazon(hooked: Flask, key: Amazon) -> Amazon:
    """Amazon in place of the internet, with nothing fetched yet."""
    made = Amazon(key=key.key)
    hooked.extensions[RELAY_HOOKS]["ses"] = SesHook((TOPIC,), made.fetch)
    return made


@pytest.fixture
def relay(hooked: Flask) -> Client:
    return Client(hooked, None)


@pytest.fixture
def rows(hooked: Flask) -> Rows:
    """Rows of a new account."""
    tenant = new_tenant(hooked)
    return Rows(tenant.services, tenant.id)


@dataclass(frozen=True)
class SentMail(Mail):
    """A delivered mail, and what became of it."""

    id: int = field(kw_only=True)
    rows: Rows = field(kw_only=True)

    @classmethod
    def by(cls, rows: Rows) -> SentMail:
        list_id, email = rows.add_list(), new_email()
        contact_id = rows.add_contact(list_id, email)
        (recipient_id,) = rows.add_send([{"email": email, "contact_id": contact_id}], list_id=list_id)
        rows.change([recipient_id], state="delivered", attempts=1)
        sender = return_path(rows.services.settings, recipient_id, FROM)
        return cls(rows.recipient(recipient_id).uuid, email, sender, id=recipient_id, rows=rows)

    @property
    def state(self) -> str:
        state: str = self.rows.recipient(self.id).state
        return state

    @property
    def steps(self) -> list[tuple[str, str | None]]:
        return self.rows.steps(self.id)

    @property
    def blocked(self) -> list[str]:
        statement = select(BlockedAddress.reason).where(BlockedAddress.account_id == self.rows.account_id)
        with self.rows.services.database.read() as session:
            return list(session.scalars(statement))


@pytest.fixture
def sent(rows: Rows) -> SentMail:
    return SentMail.by(rows)


def test_the_events_of_each_relay_bounce_once_and_block(relay: Client, rows: Rows, amazon: Amazon) -> None:
    requests: list[tuple[str, Any]] = [
        ("postmark", postmark),
        ("mailgun", lambda mail: mailgun(SECRET, mailgun_event(mail), token=mail.uuid)),
        ("sparkpost", lambda mail: [sparkpost(mail)]),
        ("ses", lambda mail: amazon.event(ses(mail), MessageId=mail.uuid)),
    ]
    for name, sample in requests:
        sent = SentMail.by(rows)
        rows.add_webhook()
        body = sample(sent)
        if name == "ses":
            post(relay, body)
        for _ in range(2):
            assert relay.post(f"/inbound/{name}", body, headers=BASIC).status_code == 200, name
        assert (sent.state, [step for step, _ in sent.steps]) == ("bounced", ["bounced"]), name
        assert rows.recipient(sent.id).reason.endswith(REPLY), name
        assert rows.group_of(sent.id).bounced == 1, name
    assert sent.blocked == ["permanent bounce"] * 4
    assert [json.loads(payload)["event"] for payload in rows.payloads()].count("bounced") == 1 + 2 + 3 + 4


@pytest.mark.parametrize("meaning", [BLOCKS, PERMANENT])
def test_the_events_of_each_relay_block_as_the_table_of_replies_says(
    relay: Client, rows: Rows, amazon: Amazon, meaning: str
) -> None:
    """Every ninth reply of the table, in an event of each relay that calls it permanent."""
    replies = [reply for reply in relay_replies() if reply.meaning == meaning and reply.has_code][::9]
    for reply in replies:
        quoted, postmarked, mailed, sparked, amazoned = f"smtp; {reply.text}", *(SentMail.by(rows) for _ in range(4))
        failed: Any = {"code": reply.code, "message": reply.text, "enhanced-code": ""}
        recipients = [{"emailAddress": amazoned.email, "status": "5.0.0", "diagnosticCode": quoted}]
        bodies: list[tuple[str, Any]] = [
            ("postmark", postmark(postmarked, Details=quoted, ID=postmarked.id)),
            (
                "mailgun",
                mailgun(SECRET, mailgun_event(mailed, "failed", **{"delivery-status": failed}), token=mailed.uuid),
            ),
            ("sparkpost", [sparkpost(sparked, bounce_class="30", raw_reason=reply.text, event_id=sparked.uuid)]),
        ]
        for name, body in bodies:
            assert relay.post(f"/inbound/{name}", body, headers=BASIC).status_code == 200, (name, reply)
        notified = amazon.event(ses(amazoned, bouncedRecipients=recipients), MessageId=amazoned.uuid)
        assert post(relay, notified).status_code == 200, reply
        assert {recipient.state for recipient in (postmarked, mailed, sparked, amazoned)} == {"bounced"}, reply
    assert postmarked.blocked == ["permanent bounce"] * (4 * len(replies) if meaning == BLOCKS else 0)


def test_a_batch_is_recorded_event_by_event_and_skipped_when_it_comes_again(
    relay: Client, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    mails = [SentMail.by(rows) for _ in range(3)]
    batch = [{"msys": {}}, *(sparkpost(mail, "delivery", event_id=mail.uuid) for mail in mails)]
    monkeypatch.setattr(take, "TIME_LIMIT", -1.0)
    assert relay.post("/inbound/sparkpost", batch, headers=BASIC).status_code == 503
    monkeypatch.setattr(take, "TIME_LIMIT", PATIENCE)
    assert relay.post("/inbound/sparkpost", batch, headers=BASIC).status_code == 200
    monkeypatch.setattr(take, "TIME_LIMIT", -1.0)
    assert relay.post("/inbound/sparkpost", batch, headers=BASIC).status_code == 200, "nothing is left to do"
    assert [[step for step, _ in mail.steps] for mail in mails] == [["reported arrived"]] * 3


@pytest.mark.parametrize("name", ["postmark", "sparkpost"])
def test_the_secret_is_accepted_in_the_path_as_password_and_as_bearer_token(relay: Client, name: str) -> None:
    path = f"/inbound/{name}"
    body: Any = [] if name == "sparkpost" else {}
    bearer = {"Authorization": f"Bearer {SECRET}"}
    accepted = [(f"{path}/{SECRET}", {}), (path, BASIC), (path, bearer)]
    wrong = [
        (path, {}),
        (f"{path}/{SECRET}x", {}),
        (path, {"Authorization": "Bearer " + SECRET[:-1]}),
        (path, {"Authorization": "Basic " + base64.b64encode(f"{SECRET}:".encode()).decode()}),
        (path, {"Authorization": "Basic é"}),
    ]
    for url, headers in accepted:
        assert relay.post(url, body, headers=headers).status_code == 200, (url, headers)
    for url, headers in wrong:
        assert relay.post(url, body, headers=headers).status_code == 404, (url, headers)


def test_a_hook_that_is_not_configured_is_not_found(anon: Client) -> None:
    for name in ("postmark", "sparkpost", "mailgun", "ses", "kannel", "nobody"):
        assert anon.post(f"/inbound/{name}", {}, headers=BASIC).status_code == 404, name


def test_a_body_that_is_no_json_or_has_too_many_events_is_refused(relay: Client) -> None:
    assert relay.post("/inbound/sparkpost", {}, headers=BASIC).status_code == 400
    assert relay.post("/inbound/sparkpost", [{}] * 10_001, headers=BASIC).status_code == 400
    assert relay.request("POST", "/inbound/postmark", data=b"{", headers=BASIC).status_code == 400


def test_an_event_about_another_address_or_an_unknown_mail_changes_nothing(relay: Client, sent: SentMail) -> None:
    unknown = Mail(email=sent.email)
    bodies: list[Any] = [postmark(sent, Metadata={}), postmark(unknown), postmark(sent, "Open"), [], {"RecordType": 5}]
    for body in bodies:
        assert relay.post("/inbound/postmark", body, headers=BASIC).status_code == 200
    assert (sent.state, sent.steps) == ("delivered", [])


def test_an_event_about_a_mail_in_flight_is_asked_for_again(relay: Client, rows: Rows, sent: SentMail) -> None:
    rows.change([sent.id], state="sending")
    early = relay.post("/inbound/postmark", postmark(sent), headers=BASIC)
    assert (early.status_code, "Retry-After" in early.headers) == (503, True)
    rows.change([sent.id], state="delivered")
    assert relay.post("/inbound/postmark", postmark(sent), headers=BASIC).status_code == 200
    assert sent.state == "bounced"


# ---------------------------------------------------------------------------------------------- Mailgun


def test_a_signature_of_mailgun_is_checked(relay: Client, sent: SentMail) -> None:
    event, moment = mailgun_event(sent), int(now().timestamp())
    wrong = [
        mailgun("another key of somebody", event),
        mailgun(SECRET, event, signature="00"),
        mailgun(SECRET, event, signature="é"),
        mailgun(SECRET, event, seconds=moment - 13 * 3600),
        mailgun(SECRET, event, seconds=moment + 3600),
        mailgun(SECRET, event, token=""),
        {"event-data": event},
        {},
    ]
    for body in wrong:
        assert relay.post("/inbound/mailgun", body).status_code == 404
    assert sent.state == "delivered"


def test_a_token_of_mailgun_is_accepted_with_one_event_only(relay: Client, rows: Rows) -> None:
    """The signature covers the token, but not the event: whoever has one could make up events."""
    first, second = SentMail.by(rows), SentMail.by(rows)
    genuine = mailgun(SECRET, mailgun_event(first, "delivered"), token=first.uuid)
    forged = {**genuine, "event-data": mailgun_event(second)}
    for body in (genuine, forged, genuine):
        assert relay.post("/inbound/mailgun", body).status_code == 200
    assert ([step for step, _ in first.steps], second.steps) == (["reported arrived"], [])


def test_a_token_of_mailgun_is_used_up_by_an_event_that_changes_nothing(relay: Client, rows: Rows) -> None:
    """Whether it reports nothing, or is about a mail of somebody else."""
    sent, token = SentMail.by(rows), uuid.uuid4().hex
    ignored = [mailgun_event(sent, "opened"), mailgun_event(Mail(email=sent.email), "delivered"), {}]
    for number, event in enumerate(ignored):
        genuine = mailgun(SECRET, event, token=f"{token}{number}")
        forged = {**genuine, "event-data": mailgun_event(sent)}
        for body in (genuine, genuine, forged):
            assert relay.post("/inbound/mailgun", body).status_code == 200
    assert (sent.state, sent.steps) == ("delivered", [])


def test_mailgun_names_a_mail_by_its_message_id_too(relay: Client, sent: SentMail) -> None:
    body = mailgun(SECRET, {**mailgun_event(sent), "user-variables": {}}, token=sent.uuid)
    assert relay.post("/inbound/mailgun", body).status_code == 200
    assert sent.state == "bounced"


# ---------------------------------------------------------------------------------------------- Amazon


def post_once(relay: Client, message: dict[str, Any]) -> TestResponse:
    """Posts a message as Amazon SNS does: as JSON under a content type of plain text."""
    headers = {"Content-Type": "text/plain; charset=UTF-8", "x-amz-sns-message-type": str(message.get("Type"))}
    return relay.request("POST", "/inbound/ses", data=json.dumps(message).encode(), headers=headers)


def post(relay: Client, message: dict[str, Any]) -> TestResponse:
    """Posts a message as often as Amazon SNS does, which repeats it while the answer is 503."""
    answers = [post_once(relay, message)]

    def is_taken() -> bool:
        if answers[-1].status_code == 503:
            answers.append(post_once(relay, message))
        return answers[-1].status_code != 503

    wait_until(is_taken, "the message is taken")
    return answers[-1]


def test_no_request_waits_for_a_document_of_amazon(hooked: Flask, relay: Client, key: Amazon, sent: SentMail) -> None:
    """One thread fetches it; all requests that need it are answered, and repeated by Amazon."""
    amazon, released = Amazon(key=key.key), threading.Event()

    def slow(url: str) -> bytes:
        assert released.wait(PATIENCE)
        return amazon.fetch(url)

    hooked.extensions[RELAY_HOOKS]["ses"] = SesHook((TOPIC,), slow)
    event = amazon.event(ses(sent))
    others = {**event, "SigningCertURL": CERTIFICATE.replace(".pem", "00.pem")}
    assert [post_once(relay, body).status_code for body in (event, event, others, others)] == [503] * 4
    released.set()
    assert post(relay, event).status_code == 200
    assert amazon.fetched == [CERTIFICATE]
    assert sent.state == "bounced"


@pytest.mark.parametrize("version", ["1", "2"])
def test_both_versions_of_signatures_are_accepted_and_the_certificate_is_fetched_once(
    relay: Client, amazon: Amazon, sent: SentMail, version: str
) -> None:
    event = amazon.event(ses(sent, "Complaint"), version=version, Subject="with a subject", MessageId=sent.uuid)
    for _ in range(2):
        assert post(relay, event).status_code == 200
    assert sent.blocked == ["complaint"]
    assert amazon.fetched == [CERTIFICATE]


def test_a_message_of_amazon_that_is_not_ours_is_refused(relay: Client, amazon: Amazon, sent: SentMail) -> None:
    event = ses(sent)
    wrong = [
        amazon.event(event, TopicArn=f"{TOPIC}-of-somebody"),
        amazon.event(event, SigningCertURL="https://sns.eu-west-1.amazonaws.com.evil.example/x.pem"),
        amazon.event(event, SigningCertURL=f"{HOST}SimpleNotificationService-00.pem/../x.pem"),
        amazon.event(event, SigningCertURL=CERTIFICATE.replace("eu-west-1", "us-east-1")),
        amazon.event(event, SigningCertURL=CERTIFICATE.replace("https:", "http:")),
        amazon.event(event, Timestamp="2026-01-01T00:00:00.000Z"),
        amazon.event(event, Timestamp="yesterday"),
        amazon.event(event, version="3"),
        {},
    ]
    for message in wrong:
        assert post(relay, message).status_code == 404, message
    assert amazon.fetched == [], "nothing is fetched for a stranger"
    for message in ({**amazon.event(event), "Message": "{}"}, Amazon().event(event)):
        assert post(relay, message).status_code == 404
    assert sent.state == "delivered"


def test_an_expired_certificate_is_refused_and_one_that_cannot_be_fetched_is_waited_for(
    relay: Client, amazon: Amazon, sent: SentMail
) -> None:
    amazon.days = -1
    assert post(relay, amazon.event(ses(sent))).status_code == 404
    amazon.away = True
    assert post_once(relay, amazon.event(ses(sent))).status_code == 503
    wait_until(lambda: len(amazon.fetched) == 2, "it was tried to fetch the certificate")
    answers = [post_once(relay, amazon.event(ses(sent))).status_code for _ in range(3)]
    assert answers == [503] * 3
    assert len(amazon.fetched) == 2, "a failure is not repeated at once"


def test_a_subscription_is_confirmed_without_following_the_url_of_the_message(relay: Client, amazon: Amazon) -> None:
    evil = {"SubscribeURL": "https://evil.example/?Action=ConfirmSubscription", "Token": "2336412f37&x=y"}
    assert post(relay, amazon.message("You have chosen", "SubscriptionConfirmation", **evil)).status_code == 200
    topic = "arn%3Aaws%3Asns%3Aeu-west-1%3A123456789012%3Amail-events"
    confirmed = f"{HOST}?Action=ConfirmSubscription&TopicArn={topic}&Token=2336412f37%26x%3Dy"
    assert amazon.fetched == [CERTIFICATE, confirmed]
    assert post(relay, amazon.message("You have", "UnsubscribeConfirmation", **evil)).status_code == 200
    assert len(amazon.fetched) == 2


def test_a_subscription_that_cannot_be_confirmed_is_asked_for_again(relay: Client, amazon: Amazon) -> None:
    assert post(relay, amazon.message("no event")).status_code == 200
    amazon.away = True
    message = amazon.message("You have chosen", "SubscriptionConfirmation", SubscribeURL=HOST, Token="t")
    assert post_once(relay, message).status_code == 503
    wait_until(lambda: len(amazon.fetched) == 2, "it was tried to confirm it")
    assert post_once(relay, message).status_code == 503


# ---------------------------------------------------------------------------------------------- packages

SOURCE = """
from app.inbound.email.report import Report, ReportKind
from app.inbound.hooks.base import HookRequest, RelayEvent
from app.inbound.hooks.base import check_secret


class PigeonHook:
    success = 202

    def read(self, request):
        check_secret(request, "a-secret-of-pigeons")
        event = request.document()
        report = Report(ReportKind.FAILED, "5.1.1", event["reason"], frozenset({event["to"]}))
        return [RelayEvent(report, f"pigeon {event['id']}", uuid=event["uuid"])]


def from_settings(settings):
    return PigeonHook()


def unconfigured(settings):
    return None
"""
GROUP = "tms.relay_hooks"


def test_a_package_adds_a_hook(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: SentMail
) -> None:
    points = {"pigeon": "tms_pigeon:from_settings", "crow": "tms_pigeon:unconfigured"}
    install(tmp_path, monkeypatch, points, GROUP, tms_pigeon=SOURCE)
    body = {"id": 1, "reason": "hawk", "to": sent.email, "uuid": sent.uuid}
    with app_with(settings) as app:
        assert Client(app).post("/inbound/pigeon/a-secret-of-pigeons", body).status_code == 202
        assert Client(app).post("/inbound/pigeon", body).status_code == 404
        assert Client(app).post("/inbound/crow", body).status_code == 404
    assert (sent.state, sent.blocked) == ("bounced", ["permanent bounce"])


@pytest.mark.parametrize("points", [{"sendgrid": "tms_pigeon:from_settings"}, {"pigeon": "tms_pigeon:nothing"}])
def test_a_hook_that_replaces_a_built_in_one_or_cannot_be_loaded_is_refused_at_start(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: dict[str, str]
) -> None:
    install(tmp_path, monkeypatch, points, GROUP, tms_pigeon=SOURCE)
    with pytest.raises(RelayHookError, match=r"sendgrid|pigeon"):
        create_app(settings)


def test_the_hooks_are_those_of_the_application(hooked: Flask, app: Flask) -> None:
    assert set(hooked.extensions[RELAY_HOOKS]) == {"mailgun", "postmark", "ses", "sparkpost"}
    assert app.extensions[RELAY_HOOKS] == {}
    assert EXTENSION in hooked.extensions
