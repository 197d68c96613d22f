"""The peer of the API cases at its best: FastAPI with asynchronous routes, one statement per request, no ORM.

It leaves out what makes the form of the guides (`bench.peers.contacts_api`) slow: a change of threads for each
dependency, three ORM queries per request, and a pydantic object for each row of a response. The statement that does the
work also checks the key. Like the other form it has no rate limit, no scopes and no list fields of an account's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from typing import Annotated, Any, LiteralString

import orjson
import psycopg
from fastapi import FastAPI, Header, Response

from bench.floors.api import CONTACTS, JsonLoader, contact_json, page_json
from bench.floors.writing import CREATE_DRAFTED, DRAFTED_CONTACTS
from bench.peers.contacts_api import NewContact, NewContacts
from bench.stack import plain_url

CONNECTIONS = 5
IS_OF_KEY_ACCOUNT: LiteralString = "account_id = (SELECT account_id FROM api_keys WHERE token_hash = %s)"
SELECT_CONTACT: LiteralString = f"{CONTACTS} WHERE list_id = %s AND id = %s AND {IS_OF_KEY_ACCOUNT}"
SELECT_PAGE: LiteralString = (
    f"{CONTACTS} WHERE list_id = %s AND {IS_OF_KEY_ACCOUNT} ORDER BY creation_time DESC, id DESC LIMIT %s OFFSET %s"
)
CREATE: LiteralString = f"{DRAFTED_CONTACTS} AND {IS_OF_KEY_ACCOUNT}{CREATE_DRAFTED}"

Key = Annotated[str, Header(alias="Authorization")]

_idle: asyncio.LifoQueue[psycopg.AsyncConnection[Any]] = asyncio.LifoQueue()


@contextlib.asynccontextmanager
async def connected(_application: FastAPI) -> AsyncIterator[None]:
    """Opens the connections of this process."""
    url = plain_url(os.environ["DATABASE_URL"])
    for _ in range(CONNECTIONS):
        connection = await psycopg.AsyncConnection.connect(
            url, autocommit=True, prepare_threshold=0, options="-c timezone=UTC"
        )
        connection.adapters.register_loader("jsonb", JsonLoader)
        _idle.put_nowait(connection)
    yield


application = FastAPI(lifespan=connected)


@application.get("/v1/lists/{list_id}/contacts/{contact_id}")
async def one_contact(list_id: int, contact_id: int, key: Key) -> Response:
    """Case A."""
    rows = await _execute(SELECT_CONTACT, (list_id, contact_id, _hashed(key)))
    return _answer(contact_json(rows[0])) if rows else Response(status_code=404)


@application.get("/v1/lists/{list_id}/contacts")
async def a_page(list_id: int, key: Key, limit: int = 1000, offset: int = 0) -> Response:
    """Case B."""
    rows = await _execute(SELECT_PAGE, (list_id, _hashed(key), limit + 1, offset))
    return _answer(page_json(list_id, rows, limit, offset))


@application.post("/v1/lists/{list_id}/contacts")
async def create(list_id: int, request: NewContacts, key: Key) -> Response:
    """Case C: contacts, an event per contact and webhook, and the triggers in one statement."""
    emails = [contact.email for contact in request.contacts]
    keys = [email.lower() for email in emails]
    mobiles = [contact.mobile for contact in request.contacts]
    values = [_values(contact) for contact in request.contacts]
    await _execute(CREATE, (emails, keys, mobiles, values, list_id, _hashed(key)))
    return Response(status_code=204)


async def _execute(statement: LiteralString, parameters: tuple[Any, ...]) -> list[Any]:
    """Runs one statement, which is its own transaction, on an idle connection."""
    connection = await _idle.get()
    try:
        cursor = await connection.execute(statement, parameters)
        return await cursor.fetchall() if cursor.description else []
    finally:
        _idle.put_nowait(connection)


def _hashed(key: str) -> str:
    return hashlib.sha256(key.removeprefix("Bearer ").encode()).hexdigest()


def _values(contact: NewContact) -> str:
    return orjson.dumps(contact.model_dump(mode="json", exclude={"email", "mobile"})).decode()


def _answer(body: dict[str, Any]) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")
