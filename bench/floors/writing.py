"""The floor of the writing cases: that of the reading cases, with the least code that writes the same rows.

Contacts are checked by hand, without saying what is wrong; sends are not checked at all. Each request is one statement,
which is its own transaction.
"""

from __future__ import annotations

import re
import uuid
from datetime import date
from typing import Any

import orjson
from flask import Response, request
from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from app.settings import from_environment
from bench.contacts import PLANS
from bench.floors.api import application, connection, json

EMAIL = re.compile(r"[a-z0-9_.+-]+@([a-z0-9-]+\.)+[a-z]{2,}", re.IGNORECASE)
MOBILE = re.compile(r"[1-9][0-9]{7,14}")
STRINGS = ("first_name", "last_name", "city")
NAMES = {"email", "mobile", "plan", "born", "points", *STRINGS}
MAX_CONTACTS = 10_000

__all__ = ["application"]

DRAFTED_CONTACTS = """
WITH drafted AS (
    SELECT list.account_id, list.id AS list_id, draft.* FROM lists list,
        unnest(%s::text[], %s::text[], %s::text[], %s::jsonb[]) draft (email, email_key, mobile, "values")
    WHERE list.id = %s"""
"""The first step of creating contacts: those of the request, with the account of the list."""
CREATE_DRAFTED = """
), created AS (
    INSERT INTO contacts (account_id, list_id, creation_time, last_modified_time, email, email_key, mobile, identifier,
        subscribed_email, subscribed_mobile, is_active, double_opt_in, "values")
    SELECT account_id, list_id, date_trunc('second', now()), date_trunc('second', now()), email, email_key, mobile,
        email_key, true, true, true, false, "values" FROM drafted
    RETURNING account_id, list_id, id
), fired AS (
    INSERT INTO trigger_firings (account_id, list_id, contact_id, action, time)
    SELECT account_id, list_id, id, 'created', now() FROM created
)
INSERT INTO events (slot, account_id, webhook_id, payload)
SELECT 0, created.account_id, webhook.id, '{"object":"contact","event":"created","id":' || created.id || ',"list_id":'
    || list_id || to_char(now() AT TIME ZONE 'UTC', ',"timestamp":"YYYY-MM-DD"T"HH24:MI:SS"Z"}')
FROM created JOIN webhooks webhook ON webhook.account_id = created.account_id ORDER BY created.id
"""
CREATE = DRAFTED_CONTACTS + CREATE_DRAFTED

SEND = """
WITH grouped AS (
    UPDATE transactional_groups g SET sent = sent + %(count)s, last_sent_time = date_trunc('second', now())
    FROM lists list WHERE list.id = %(list_id)s AND g.account_id = list.account_id AND g.name = %(group_name)s
    RETURNING g.account_id, g.id, g.name
), accepted AS (
    INSERT INTO sends (account_id, request_id, creation_time, type, list_id, group_id, group_name, subject, from_name,
        from_address, body_html, body_text, include_unsubscribed, recipient_data_html_encoded)
    SELECT account_id, %(request_id)s, date_trunc('second', now()), 'email', %(list_id)s, id, name, %(subject)s,
        %(from_name)s, %(from_address)s, %(body_html)s, %(body_text)s, false, true FROM grouped
    RETURNING account_id, id, group_id
), queued AS (
    INSERT INTO recipients (uuid, account_id, send_id, group_id, list_id, contact_id, type, email, "values", state,
        creation_time, attempts, open_type)
    SELECT one.uuid, accepted.account_id, accepted.id, accepted.group_id, %(list_id)s, contact.id, 'email', one.email,
        one."values", 'queued', date_trunc('second', now()), 0, 'not_opened'
    FROM accepted, unnest(%(uuids)s::text[], %(emails)s::text[], %(values)s::jsonb[]) one (uuid, email, "values")
    JOIN contacts contact ON contact.list_id = %(list_id)s AND contact.email_key = one.email
    RETURNING id, account_id
), due AS (
    INSERT INTO send_queue (recipient_id, account_id, priority, state, due_time, ready_time, attempts)
    SELECT id, account_id, 'normal', 'queued', now(), now(), 0 FROM queued
)
SELECT id FROM grouped
"""
SEND_COLUMNS = ("list_id", "group_name", "subject", "from_name", "from_address", "body_html", "body_text")

queue = Queue("floor", connection=Redis.from_url(from_environment().redis_url), serializer=JSONSerializer)


@application.post("/v1/lists/<int:list_id>/contacts")
def create(list_id: int) -> Response:
    """Case C: contacts checked by hand, and one statement for contacts, events and triggers."""
    contacts = orjson.loads(request.get_data())["contacts"]
    if not all(_is_right(contact) for contact in contacts):
        return Response(status=422)
    emails = [contact["email"] for contact in contacts]
    keys = [email.lower() for email in emails]
    mobiles = [contact["mobile"] for contact in contacts]
    values = [_values(contact) for contact in contacts]
    connection().execute(CREATE, (emails, keys, mobiles, values, list_id))
    return Response(status=204)


def _is_right(contact: Any) -> bool:
    try:
        return (
            contact.keys() <= NAMES
            and EMAIL.fullmatch(contact["email"]) is not None
            and len(contact["email"]) <= 254
            and MOBILE.fullmatch(contact["mobile"]) is not None
            and all(type(contact[name]) is str and len(contact[name]) <= MAX_CONTACTS for name in STRINGS)
            and contact["plan"] in PLANS
            and len(contact["born"]) == 10
            and bool(date.fromisoformat(contact["born"]))
            and type(contact["points"]) in (int, float)
        )
    except (KeyError, TypeError, ValueError):
        return False


def _values(contact: dict[str, Any]) -> str:
    del contact["email"], contact["mobile"]
    return orjson.dumps(contact).decode()


@application.post("/v1/transactional-sends")
def send() -> Response:
    """Cases D1 and D100: one statement; a send to one recipient also wakes a worker."""
    body = orjson.loads(request.get_data())
    recipients = body["recipients"]
    uuids = [str(uuid.uuid4()) for _ in recipients]
    given = {
        **{name: body[name] for name in SEND_COLUMNS},
        "count": len(recipients),
        "request_id": uuid.uuid4().hex,
        "uuids": uuids,
        "emails": [recipient.pop("email") for recipient in recipients],
        "values": [orjson.dumps(recipient).decode() for recipient in recipients],
    }
    (group_id,) = connection().execute(SEND, given).fetchone() or (None,)
    if len(recipients) == 1:
        queue.enqueue_call("jobs.sends.drain", result_ttl=0)
    links = {
        "self": {"href": "/v1/transactional-sends"},
        "transactional_group": {"href": f"/v1/transactional-groups/{group_id}"},
    }
    return json(
        {"_embedded": {"recipients": [{"uuid": recipient_uuid} for recipient_uuid in uuids]}, "_links": links}, 202
    )
