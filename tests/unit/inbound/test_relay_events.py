"""What the events of relays report (docs/relay-hooks.md)."""

from __future__ import annotations

from typing import Any

import pytest

from app.inbound.email.report import Report, ReportKind
from app.inbound.hooks import mailgun, postmark, sparkpost
from app.inbound.hooks.ses import reports_of
from tests.support.cases import each
from tests.support.relay_samples import REPLY, Mail, mailgun_event, ses
from tests.support.relay_samples import postmark as postmark_event
from tests.support.relay_samples import sparkpost as sparkpost_event

MAIL = Mail(email="Ann@example.com")
FAILED, DELAYED, ARRIVED = ReportKind.FAILED, ReportKind.DELAYED, ReportKind.ARRIVED
COMPLAINT, OPT_OUT = ReportKind.COMPLAINT, ReportKind.OPT_OUT


def check(report: Report | None, kind: ReportKind | None, status: str | None) -> None:
    """Kind and status are as expected, and the report is about the address."""
    if report is None:
        assert kind is None
        return
    assert (report.kind, report.status) == (kind, status)
    assert report.about == {"ann@example.com"}


@each(
    ("values", "kind", "status"),
    [
        ({}, FAILED, "5.1.1"),
        ({"Details": "no code at all"}, FAILED, "5.0.0"),
        ({"Type": "BadEmailAddress", "Details": "no code at all"}, FAILED, "5.1.3"),
        ({"Type": "BadEmailAddress", "Details": "550 5.7.1 no"}, FAILED, "5.7.1"),
        ({"Type": "SoftBounce", "Details": "452 4.2.2 mailbox full"}, FAILED, "4.2.2"),
        ({"Type": "Blocked", "Details": "550 5.7.1 listed"}, FAILED, "4.7.1"),
        ({"Type": "SpamNotification"}, FAILED, "4.1.1"),
        ({"Type": "ManuallyDeactivated"}, FAILED, "4.7.0"),
        ({"Type": "Transient", "Details": "421 4.4.1 later"}, DELAYED, "4.4.1"),
        ({"Type": "SpamComplaint"}, COMPLAINT, None),
        ({"Type": "Unsubscribe"}, OPT_OUT, None),
        ({"Type": "AutoResponder"}, None, None),
        ({"record_type": "SpamComplaint"}, COMPLAINT, None),
        ({"record_type": "Delivery"}, ARRIVED, "2.0.0"),
        ({"record_type": "SubscriptionChange"}, OPT_OUT, None),
        ({"record_type": "SubscriptionChange", "SuppressionReason": "HardBounce"}, None, None),
        ({"record_type": "SubscriptionChange", "SuppressSending": False}, None, None),
        ({"record_type": "Open"}, None, None),
    ],
)
def test_postmark(values: dict[str, Any], kind: ReportKind | None, status: str | None) -> None:
    check(postmark.report_of(postmark_event(MAIL, **values)), kind, status)


@each(
    ("values", "kind", "status"),
    [
        ({}, FAILED, "5.1.1"),
        ({"delivery-status": {"code": 554, "message": "refused"}}, FAILED, "5.0.0"),
        ({"delivery-status": {"code": 550, "message": "listed", "bounce-type": "soft"}}, FAILED, "4.0.0"),
        ({"delivery-status": {"code": 498, "message": "No MX"}, "reason": "old"}, FAILED, "4.4.7"),
        ({"delivery-status": {"code": 605, "message": "Not delivering"}, "reason": "suppress-bounce"}, FAILED, "4.7.0"),
        ({"severity": "temporary", "delivery-status": {"code": 452, "message": "452 4.2.2 full"}}, DELAYED, "4.2.2"),
        ({"event": "rejected"}, FAILED, "4.7.0"),
        ({"event": "delivered"}, ARRIVED, None),
        ({"event": "complained"}, COMPLAINT, None),
        ({"event": "unsubscribed"}, OPT_OUT, None),
        ({"event": "opened"}, None, None),
    ],
)
def test_mailgun(values: dict[str, Any], kind: ReportKind | None, status: str | None) -> None:
    check(mailgun.report_of(mailgun_event(MAIL, **values)), kind, status)


@each(
    ("values", "kind", "status"),
    [
        ({}, FAILED, "5.1.1"),
        ({"bounce_class": "30", "raw_reason": ""}, FAILED, "5.1.1"),
        ({"bounce_class": "30", "raw_reason": "550 no", "reason": ""}, FAILED, "5.0.0"),
        ({"bounce_class": "10", "raw_reason": "550 no", "reason": ""}, FAILED, "5.1.1"),
        ({"bounce_class": "10", "raw_reason": "550 5.7.1 no", "reason": ""}, FAILED, "5.7.1"),
        ({"bounce_class": "22", "raw_reason": "552 5.2.2 full"}, FAILED, "4.2.2"),
        ({"bounce_class": "51", "raw_reason": "listed", "error_code": "554"}, FAILED, "4.0.0"),
        ({"bounce_class": "25"}, FAILED, "4.7.0"),
        ({"bounce_class": "60"}, None, None),
        ({"bounce_class": "90"}, OPT_OUT, None),
        ({"type_": "out_of_band"}, FAILED, "5.1.1"),
        ({"type_": "delay"}, DELAYED, "4.4.4"),
        ({"type_": "delivery"}, ARRIVED, None),
        ({"type_": "policy_rejection"}, FAILED, "4.7.0"),
        ({"type_": "spam_complaint"}, COMPLAINT, None),
        ({"type_": "spam_complaint", "fbtype": "not-spam"}, None, None),
        ({"type_": "list_unsubscribe"}, OPT_OUT, None),
        ({"type_": "click"}, None, None),
    ],
)
def test_sparkpost(values: dict[str, Any], kind: ReportKind | None, status: str | None) -> None:
    (event,) = sparkpost_event(MAIL, **values)["msys"].values()
    check(sparkpost.report_of(event), kind, status)


@each(
    ("values", "kind", "status"),
    [
        ({}, FAILED, "5.1.1"),
        ({"published": True}, FAILED, "5.1.1"),
        ({"bounceSubType": "OnAccountSuppressionList"}, FAILED, "4.7.0"),
        ({"bounceType": "Transient", "bounceSubType": "MailboxFull"}, FAILED, "4.1.1"),
        ({"bounceType": "Undetermined"}, FAILED, "5.1.1"),
        ({"bounceType": "Undetermined", "bouncedRecipients": [{"emailAddress": MAIL.email}]}, FAILED, "4.0.0"),
        ({"kind": "Complaint"}, COMPLAINT, None),
        ({"kind": "Complaint", "complaintFeedbackType": "not-spam"}, None, None),
        ({"kind": "Complaint", "complaintSubType": "OnAccountSuppressionList"}, FAILED, "4.7.0"),
        ({"kind": "Delivery"}, ARRIVED, "2.6.0"),
        ({"kind": "DeliveryDelay", "published": True}, DELAYED, "4.4.1"),
        ({"kind": "Open", "published": True}, None, None),
    ],
)
def test_ses(values: dict[str, Any], kind: ReportKind | None, status: str | None) -> None:
    (report,) = reports_of(ses(MAIL, **values)) or (None,)
    check(report, kind, status)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Reject", Report(FAILED, "4.6.0", "rejected by SES: Bad content")),
        ("Subscription", Report(OPT_OUT, None, "unsubscribed at SES")),
    ],
)
def test_ses_names_no_address_in_some_events(kind: str, expected: Report) -> None:
    assert reports_of(ses(MAIL, kind, published=True)) == [expected]


def test_the_diagnostic_is_that_of_the_mail_server() -> None:
    (report,) = reports_of(ses(MAIL))
    assert report.detail == REPLY
