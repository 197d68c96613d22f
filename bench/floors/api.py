"""The floor of the API cases: bare Flask routes, psycopg and orjson, under the service's own gunicorn.

They check no key and no scope, count no rate, and validate nothing: they read the rows and answer as the service does.
A connection per thread replaces the pool, without its cost.
"""

from __future__ import annotations

import os
import threading
from datetime import datetime
from typing import Any

import orjson
import psycopg
from flask import Flask, Response

from bench.stack import plain_url

application = Flask(__name__)
_local = threading.local()

CONTACTS = """
SELECT id, list_id, creation_time, last_modified_time, email, mobile, subscribed_email, subscribed_mobile,
    EXISTS (SELECT 1 FROM blocked_addresses b
        WHERE b.account_id = c.account_id AND b.kind = 'email' AND b.address = c.email_key),
    EXISTS (SELECT 1 FROM blocked_addresses b
        WHERE b.account_id = c.account_id AND b.kind = 'mobile' AND b.address = c.mobile),
    is_active, double_opt_in, double_opt_in_time, "values"
FROM contacts c
"""
VALUES = ("first_name", "last_name", "city", "plan", "born", "points")


def connection() -> psycopg.Connection[Any]:
    """The connection of this thread. Each statement is a transaction of its own, and is prepared once."""
    if not hasattr(_local, "connection"):
        url = plain_url(os.environ["DATABASE_URL"])
        _local.connection = psycopg.connect(url, autocommit=True, prepare_threshold=0, options="-c timezone=UTC")
        _local.connection.adapters.register_loader("jsonb", JsonLoader)
    database: psycopg.Connection[Any] = _local.connection
    return database


class JsonLoader(psycopg.adapt.Loader):
    """Reads jsonb."""

    def load(self, data: Any) -> Any:
        return orjson.loads(bytes(data))


def json(body: Any, status: int = 200) -> Response:
    """A JSON response."""
    return Response(orjson.dumps(body), status, content_type="application/json")


@application.get("/v1/lists/<int:list_id>/contacts/<int:contact_id>")
def one_contact(list_id: int, contact_id: int) -> Response:
    """Case A: one select by the primary key."""
    row = connection().execute(f"{CONTACTS} WHERE list_id = %s AND id = %s", (list_id, contact_id)).fetchone()
    return json(contact_json(row)) if row else Response(status=404)


@application.get("/v1/lists/<int:list_id>/contacts")
def a_page(list_id: int) -> Response:
    """Case B: a page of 1,000 contacts."""
    rows = (
        connection()
        .execute(f"{CONTACTS} WHERE list_id = %s ORDER BY creation_time DESC, id DESC LIMIT 1001", (list_id,))
        .fetchall()
    )
    return json(page_json(list_id, rows, limit=1000, offset=0))


def page_json(list_id: int, rows: list[Any], limit: int, offset: int) -> dict[str, Any]:
    """A page of contacts; one row more than the limit shows that another page follows."""
    path = f"/v1/lists/{list_id}/contacts"
    links = {"self": {"href": path}}
    if len(rows) > limit:
        links["next"] = {"href": f"{path}?limit={limit}&offset={offset + limit}"}
    contacts = [contact_json(row) for row in rows[:limit]]
    embedded = {"contacts": contacts}
    return {"offset": offset, "limit": limit, "size": len(contacts), "_links": links, "_embedded": embedded}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S}Z"


def contact_json(row: Any) -> dict[str, Any]:
    """A row of `CONTACTS` as the object that clients receive."""
    list_id, contact_id = row[1], row[0]
    values = row[13]
    return {
        "id": contact_id,
        "list_id": list_id,
        "creation_time": _time(row[2]),
        "last_modified_time": _time(row[3]),
        "email": row[4],
        "mobile": row[5],
        "subscribed": {"email": row[6], "mobile": row[7]},
        "blocked": {"email": row[8], "mobile": row[9]},
        "is_active": row[10],
        "double_opt_in": row[11],
        "double_opt_in_time": _time(row[12]),
        **{name: values.get(name) for name in VALUES},
        "_links": {
            "self": {"href": f"/v1/lists/{list_id}/contacts/{contact_id}"},
            "list": {"href": f"/v1/lists/{list_id}"},
        },
    }
