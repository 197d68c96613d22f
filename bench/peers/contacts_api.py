"""The peer of the API cases as in its guides: FastAPI, SQLAlchemy's ORM and pydantic, under uvicorn.

It reads and writes the tables of the service and returns the same objects. It looks up the key, but has no rate limit,
no scopes and no list fields of an account's own: it does less than the service.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel, ConfigDict, EmailStr, Field
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session, sessionmaker

from app.db.models import ApiKey, BlockedAddress, Event, TriggerFiring, Webhook
from app.db.models import Contact as ContactRow

application = FastAPI()
engine = create_engine(os.environ["DATABASE_URL"], pool_size=10)
make_session = sessionmaker(engine)


class ByKind(BaseModel):
    """A boolean for each address kind."""

    email: bool
    mobile: bool


class Link(BaseModel):
    """A link."""

    href: str


class ContactLinks(BaseModel):
    """The links of a contact."""

    self: Link
    list: Link


class Contact(BaseModel):
    """A contact as the object that clients receive."""

    id: int
    list_id: int
    creation_time: datetime
    last_modified_time: datetime
    email: str | None
    mobile: str | None
    subscribed: ByKind
    blocked: ByKind
    is_active: bool
    double_opt_in: bool
    double_opt_in_time: datetime | None
    first_name: str | None
    last_name: str | None
    city: str | None
    plan: str | None
    born: str | None
    points: float | None
    links: ContactLinks = Field(serialization_alias="_links")


class Contacts(BaseModel):
    """The contacts of a page."""

    contacts: list[Contact]


class PageLinks(BaseModel):
    """The links of a page."""

    self: Link
    next: Link | None = None


class ContactPage(BaseModel):
    """A page of contacts."""

    offset: int
    limit: int
    size: int
    links: PageLinks = Field(serialization_alias="_links")
    embedded: Contacts = Field(serialization_alias="_embedded")


class NewContact(BaseModel):
    """A contact to be created: the two addresses and the fields of the list."""

    model_config = ConfigDict(extra="forbid")

    email: EmailStr
    mobile: str = Field(pattern=r"^[1-9][0-9]{7,14}$")
    first_name: str = Field(max_length=10_000)
    last_name: str = Field(max_length=10_000)
    city: str = Field(max_length=10_000)
    plan: Literal["free", "silver", "gold"]
    born: date
    points: float


class NewContacts(BaseModel):
    """The contacts of a bulk request."""

    contacts: list[NewContact] = Field(min_length=1, max_length=1000)


class ContactCreated(BaseModel):
    """The events of the webhooks."""

    object: str = "contact"
    event: str = "created"
    id: int
    list_id: int
    timestamp: datetime


def session() -> Iterator[Session]:
    """A session for one request."""
    with make_session() as made:
        yield made


Database = Annotated[Session, Depends(session)]


def account(database: Database, authorization: Annotated[str, Header()]) -> int:
    """The account of the key."""
    token_hash = hashlib.sha256(authorization.removeprefix("Bearer ").encode()).hexdigest()
    key = database.scalar(select(ApiKey).where(ApiKey.token_hash == token_hash))
    if key is None:
        raise HTTPException(401)
    return key.account_id


Account = Annotated[int, Depends(account)]


@application.get("/v1/lists/{list_id}/contacts/{contact_id}")
def one_contact(list_id: int, contact_id: int, database: Database, account_id: Account) -> Contact:
    """Case A."""
    row = database.get(ContactRow, contact_id)
    if row is None or row.account_id != account_id or row.list_id != list_id:
        raise HTTPException(404)
    return _contact(row, _blocked(database, account_id, [row]))


@application.get("/v1/lists/{list_id}/contacts")
def a_page(list_id: int, database: Database, account_id: Account, limit: int = 1000, offset: int = 0) -> ContactPage:
    """Case B."""
    chosen = select(ContactRow).where(ContactRow.account_id == account_id, ContactRow.list_id == list_id)
    newest_first = chosen.order_by(ContactRow.creation_time.desc(), ContactRow.id.desc())
    rows = list(database.scalars(newest_first.limit(limit + 1).offset(offset)))
    page_rows = rows[:limit]
    blocked = _blocked(database, account_id, page_rows)
    path = f"/v1/lists/{list_id}/contacts"
    more = Link(href=f"{path}?limit={limit}&offset={offset + limit}") if len(rows) > limit else None
    return ContactPage(
        offset=offset,
        limit=limit,
        size=len(page_rows),
        links=PageLinks(self=Link(href=path), next=more),
        embedded=Contacts(contacts=[_contact(row, blocked) for row in page_rows]),
    )


@application.post("/v1/lists/{list_id}/contacts", status_code=204)
def create(list_id: int, given: NewContacts, database: Database, account_id: Account) -> None:
    """Case C: contacts, then an event per contact and webhook, and the triggers."""
    moment = datetime.now(UTC).replace(microsecond=0)
    contacts = [_new(new_contact, account_id, list_id, moment) for new_contact in given.contacts]
    database.add_all(contacts)
    database.flush()
    for webhook_id in database.scalars(select(Webhook.id).where(Webhook.account_id == account_id)):
        database.add_all([_event(row, webhook_id) for row in contacts])
    database.add_all([_firing(row) for row in contacts])
    database.commit()


def _new(new_contact: NewContact, account_id: int, list_id: int, moment: datetime) -> ContactRow:
    email = new_contact.email
    return ContactRow(
        account_id=account_id,
        list_id=list_id,
        creation_time=moment,
        last_modified_time=moment,
        email=email,
        email_key=email.lower(),
        identifier=email.lower(),
        mobile=new_contact.mobile,
        subscribed_email=True,
        subscribed_mobile=True,
        is_active=True,
        double_opt_in=False,
        values=new_contact.model_dump(mode="json", exclude={"email", "mobile"}),
    )


def _event(row: ContactRow, webhook_id: int) -> Event:
    payload = ContactCreated(id=row.id, list_id=row.list_id, timestamp=row.creation_time)
    return Event(account_id=row.account_id, webhook_id=webhook_id, payload=payload.model_dump_json())


def _firing(row: ContactRow) -> TriggerFiring:
    return TriggerFiring(
        account_id=row.account_id,
        list_id=row.list_id,
        contact_id=row.id,
        action="created",
        time=row.creation_time,
    )


def _blocked(database: Session, account_id: int, rows: list[ContactRow]) -> set[tuple[str, str]]:
    """The blocked ones of the contacts' addresses."""
    addresses = [address for row in rows for address in (row.email_key, row.mobile) if address]
    statement = select(BlockedAddress).where(
        BlockedAddress.account_id == account_id, BlockedAddress.address.in_(addresses)
    )
    return {(entry.kind, entry.address) for entry in database.scalars(statement)}


def _contact(row: ContactRow, blocked: set[tuple[str, str]]) -> Contact:
    values: dict[str, Any] = row.values
    return Contact(
        id=row.id,
        list_id=row.list_id,
        creation_time=row.creation_time,
        last_modified_time=row.last_modified_time,
        email=row.email,
        mobile=row.mobile,
        subscribed=ByKind(email=row.subscribed_email, mobile=row.subscribed_mobile),
        blocked=ByKind(email=("email", row.email_key) in blocked, mobile=("mobile", row.mobile) in blocked),
        is_active=row.is_active,
        double_opt_in=row.double_opt_in,
        double_opt_in_time=row.double_opt_in_time,
        first_name=values.get("first_name"),
        last_name=values.get("last_name"),
        city=values.get("city"),
        plan=values.get("plan"),
        born=values.get("born"),
        points=values.get("points"),
        links=ContactLinks(
            self=Link(href=f"/v1/lists/{row.list_id}/contacts/{row.id}"), list=Link(href=f"/v1/lists/{row.list_id}")
        ),
    )
