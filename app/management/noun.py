"""The nouns that programs set up by the API: what one is, and reading it for all of them (docs/management.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.models import Account, List
from app.db.public_ids import has_any_id
from app.errors import ServiceError
from app.ids import describe, existing, sought_id
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Links, Page, Property, Shape, read_one, read_page
from app.services import Services

PATH = "/v1/management"
Values = Mapping[str, Any]
"""Attribute -> its value, as the schema of the body has loaded it."""
Item = dict[str, Any]
"""A row as the API shows it."""


@dataclass(frozen=True, slots=True)
class Manager:
    """The account whose key of the level manager acts, and the services of the process."""

    services: Services
    account_id: int


@dataclass(frozen=True, slots=True)
class Details:
    """Properties that one further statement reads for all rows of a page: `load` returns them by the id of the row."""

    names: tuple[str, ...]
    load: Callable[[Session, Manager, Sequence[int], ZoneInfo | None], Mapping[int, Item]]


@dataclass(frozen=True, slots=True)
class CreatedRow:
    """A new row, and what its answer says once and never again, such as a token."""

    row: Any
    shown_once: Item


Create = Callable[[Transaction, Manager, Values], CreatedRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedNoun:
    """A noun that a key of the level manager sets up. Its use cases raise `ServiceError`, which names the attribute.

    `shape` is that of a page, `whole` that of one item. `create` is None for a noun that only an operator creates;
    `update` and `delete` take the row, and the latter by name what the query says: `delete_parameters` are functions
    that return the values of its parameters. `shows_secrets` says that its answers may have what is shown once.
    """

    model: Any
    shape: Shape
    whole: Shape
    details: tuple[Details, ...] = ()
    create: Create | None
    update: Callable[[Transaction, Manager, Any, Values], object]
    delete: Callable[..., object]
    delete_parameters: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    has_tests: bool = False
    """Whether rows of the test account are among them."""
    most: int | None = None
    """How many of them an account may have; None for a noun that is created by operators, or limited otherwise."""
    is_managed: tuple[ColumnElement[bool], ...] = ()
    """What else holds for the rows."""
    shows_secrets: bool = False

    @property
    def name(self) -> str:
        """The noun, in the singular."""
        return self.shape.resource.name

    @property
    def collection(self) -> str:
        """The noun in the plural: the last part of its path, and its key in `_embedded`."""
        return self.shape.resource.collection

    def scope(self, account_id: int) -> tuple[ColumnElement[bool], ...]:
        """The conditions that a row is one that the account manages."""
        if not self.has_tests:
            return self.model.account_id == account_id, *self.is_managed
        return self.model.account_id.in_(managed_accounts(account_id)), *self.is_managed


def item_path(collection: str, row_id: int) -> str:
    """The path of an item."""
    return f"{PATH}/{collection}/{row_id}"


def shape_of(
    model: Any,
    name: str,
    collection: str,
    properties: Mapping[str, Property],
    filters: Mapping[str, FilterType],
    *,
    links: Links | None = None,
    keys: tuple[Any, ...] = (),
    options: Mapping[str, tuple[str, ...]] | None = None,
) -> Shape:
    """The shape of a managed noun, whose pages are ordered by its creation. `links` are those beside its own, and
    `keys` the columns that they need beside the id. `options` are the values of filters that are words."""

    def own_links(row: Any) -> Item:
        further = links(row) if links else {}
        return {"self": {"href": item_path(collection, row.id)}, **further}

    named = {key: Filter(key, type_, (options or {}).get(key, ())) for key, type_ in filters.items()}
    return Shape(
        resource=Resource(name, collection, named, tuple(properties)),
        properties=properties,
        keys=(model.id, *keys),
        links=own_links,
        order=(model.creation_time, model.id),
    )


def with_properties(shape: Shape, properties: Mapping[str, Property]) -> Shape:
    """The shape of one item, which has other properties than those of a page."""
    resource = replace(shape.resource, fields=tuple(properties))
    return replace(shape, resource=resource, properties=properties)


def is_of_test_account(model: Any) -> Any:
    """A column that says whether the row is one of a test account."""
    return select(Account.test_of.is_not(None)).where(Account.id == model.account_id).correlate(model).scalar_subquery()


def managed_accounts(account_id: int) -> Select[Any]:
    """The ids of the account and of its test account."""
    return select(Account.id).where(or_(Account.id == account_id, Account.test_of == account_id))


def check_number(session: Session, noun: ManagedNoun, account_id: int) -> None:
    """Raises `conflict` for an account that has as many as it may."""
    count = select(func.count()).select_from(noun.model).where(*noun.scope(account_id))
    if noun.most is not None and session.execute(count).scalar_one() >= noun.most:
        detail = f"The account already has {noun.most:,} {noun.collection}, which is the maximum."
        raise ServiceError("conflict", detail=detail)


def owner_of(session: Session, noun: ManagedNoun, manager: Manager, row_id: int) -> int:
    """The id of the account that has the row with that id. Raises `not_found`."""
    statement = select(noun.model.account_id).where(noun.model.id == row_id, *noun.scope(manager.account_id))
    owner: int | None = session.execute(statement).scalar_one_or_none()
    return existing(owner, noun.name, row_id)


def find_row(session: Session, noun: ManagedNoun, manager: Manager, row_id: int) -> Any:
    """The row with that id, to be changed. Raises `not_found`."""
    statement = select(noun.model).where(noun.model.id == row_id, *noun.scope(manager.account_id))
    return existing(session.scalars(statement).first(), noun.name, row_id)


def page_items(session: Session, noun: ManagedNoun, manager: Manager, query: Query) -> Page:
    """A page of the items: one statement, and one for each of the details that the query asks for."""
    page = read_page(session, noun.shape, query, *noun.scope(manager.account_id))
    _add_details(session, noun, manager, query, {row.id: item for row, item in zip(page.rows, page.items, strict=True)})
    return page


def show_row(
    session: Session, noun: ManagedNoun, manager: Manager, owner_and_id: tuple[int, int], query: Query
) -> Item:
    """The item of that account with that id. Raises `not_found`."""
    owner, row_id = owner_and_id
    item = read_one(session, noun.whole, query, {noun.model.account_id: owner, noun.model.id: row_id})
    item = existing(item, noun.name, row_id)
    _add_details(session, noun, manager, query, {row_id: item})
    return item


def _add_details(
    session: Session, noun: ManagedNoun, manager: Manager, query: Query, items: Mapping[int, Item]
) -> None:
    for details in noun.details:
        names = [name for name in details.names if query.fields is None or name in query.fields]
        if names and items and {*names} <= next(iter(items.values())).keys():
            loaded = details.load(session, manager, list(items), query.zone)
            for row_id, item in items.items():
                item.update({name: loaded[row_id][name] for name in names})


def list_ids(session: Session, account_id: int, given_ids: Sequence[int], attribute: str) -> list[int]:
    """The ids of the account's lists, which the body names by their ids. Raises `invalid_id` for one that the account
    does not have."""
    sought = [sought_id(given_id) for given_id in given_ids]
    rows = {abs(row_id) for row_id in session.scalars(select(List.id).where(has_any_id(List, account_id, sought)))}
    for given_id, row_id in zip(given_ids, sought, strict=True):
        if row_id not in rows:
            raise ServiceError(
                "invalid_id", field=attribute, detail=f"The account has no {describe('list', given_id)}."
            )
    return sought
