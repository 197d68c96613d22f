"""Contacts: adding them to a list, and one with why it gets no messages
(docs/console-contents.md#lists-and-contacts)."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response, request

from app.accounts.auth import MANAGE
from app.console.contacts import (
    ContactChanges,
    addresses_of,
    cells_of,
    check_kind,
    inputs_of,
    path_of_contact,
    read_contact,
    state_of,
)
from app.console.lists import name_of, path_of_list
from app.console.losses import loss_of_contact
from app.console.messages import PATH as MESSAGES_PATH
from app.contacts.by_hand import ContactActs
from app.contacts.read import get_contact
from app.db.database import ReadSession, Transaction
from app.db.models import Account
from app.errors import ServiceError
from app.http.console.guard import may
from app.http.console.notices import Done
from app.http.console.pages import link, page_after
from app.http.console.questions import Question
from app.http.context import services
from app.http.paths import path_id
from app.lists.fields import ListSpec
from app.query.conditions import Query
from app.suppressions.entries import suppressions_of
from app.suppressions.states import UNSUBSCRIBED
from blueprints.console.blueprint import blp
from blueprints.console.lists import list_of_path, list_page, may_write
from blueprints.console.suppressions import removal_question


@blp.changes(
    "/lists/<list_id>/contacts", "contact.create", refused=lambda error, list_id: list_page(list_id, error, "contact")
)
def create(transaction: Transaction, list_id: str) -> Done:
    """Creates the contact of the form."""
    changes = _changes(transaction, list_id)
    contact_id = changes.add(cells_of(changes.contact_list, request.form))
    return Done(_path(changes.contact_list, contact_id), "The contact was added.")


@blp.shows("/lists/<list_id>/contacts/<contact_id>", "contact.view")
def contact(
    error: ServiceError | None = None, *, list_id: str, contact_id: str, form: Mapping[str, str] | None = None
) -> Response:
    """The values of a contact, or those of the form, its latest messages, and what keeps others away."""
    settings = services().settings
    with services().database.read() as session:
        contact_list = list_of_path(session, list_id)
        account, id_ = session.get_one(Account, contact_list.account_id), path_id(contact_id)
        contact_page = read_contact(session, settings, account, contact_list, id_)
        return page_after(
            error,
            "contact.html",
            contact_page=contact_page,
            item=contact_page.item,
            state=state_of(contact_page.item),
            list_name=name_of(contact_list),
            inputs=inputs_of(contact_list, contact_page.item, form),
            form=form,
            at=lambda path: link(path, [], account.id),
            of=path_of_contact(contact_list, id_),
            of_list=path_of_list(contact_list),
            messages=link(MESSAGES_PATH, [("contact_id", str(id_))], account.id),
            may_update=may_write(contact_list, "contact.update"),
            may_delete=may_write(contact_list, "contact.delete"),
            may_forget=may(MANAGE),
        )


@blp.changes(
    "/lists/<list_id>/contacts/<contact_id>",
    "contact.update",
    refused=lambda error, **parts: contact(error, **parts, form=request.form),
)
def write(transaction: Transaction, list_id: str, contact_id: str) -> Done:
    """Writes the values of the form to a contact."""
    changes = _changes(transaction, list_id)
    changes.write(path_id(contact_id), cells_of(changes.contact_list, request.form))
    return Done(_path(changes.contact_list, path_id(contact_id)), "The contact was saved.")


def _before_subscribing(session: ReadSession, list_id: str, contact_id: str) -> Question:
    contact_list = list_of_path(session, list_id)
    item, kind = get_contact(session, contact_list, path_id(contact_id), Query()), request.form.get("kind", "")
    check_kind(item, kind)
    address, back = item[kind], _path(contact_list, item["id"])
    if request.form.get("subscribed") == "true":
        forms = [address for address in addresses_of(item) if address.kind == kind]
        entries = suppressions_of(session, contact_list.account_id, contact_list.id, forms)
        return removal_question(session, contact_list.account_id, entries, UNSUBSCRIBED, address=address, back=back)
    loss = f"It gets no more messages of the list {name_of(contact_list)} until it is resubscribed."
    return Question(f"Unsubscribe {address}?", [loss], "Unsubscribe address", back)


@blp.changes(
    "/lists/<list_id>/contacts/<contact_id>/subscription",
    "contact.update",
    refused=contact,
    asks=_before_subscribing,
)
def subscribe(transaction: Transaction, list_id: str, contact_id: str) -> Done:
    """Subscribes an address of a contact, or unsubscribes it from the list."""
    kind, subscribed = (request.form.get(name, "") for name in ("kind", "subscribed"))
    changes = _changes(transaction, list_id)
    changes.subscribe(path_id(contact_id), kind, subscribed == "true")
    return Done(
        _path(changes.contact_list, path_id(contact_id)),
        "The address was resubscribed." if subscribed == "true" else "The address was unsubscribed from the list.",
    )


def _before_deleting(session: ReadSession, list_id: str, contact_id: str) -> Question:
    contact_list = list_of_path(session, list_id)
    if not may_write(contact_list, "contact.delete"):
        raise ServiceError("list_not_mutable")
    item = get_contact(session, contact_list, path_id(contact_id), Query())
    address = item["email"] or item["mobile"] or f"contact {item['id']}"
    loss = "Reports keep the messages that were sent to it. If its address is unsubscribed or blocked, it stays so."
    facts = [loss, *loss_of_contact(session, contact_list, item["id"])]
    title = f"Delete {address} from the list {name_of(contact_list)}?"
    return Question(title, facts, "Delete contact", _path(contact_list, item["id"]))


@blp.changes("/lists/<list_id>/contacts/<contact_id>/delete", "contact.delete", refused=contact, asks=_before_deleting)
def delete(transaction: Transaction, list_id: str, contact_id: str) -> Done:
    """Deletes a contact; its suppressions stay."""
    changes = _changes(transaction, list_id)
    changes.remove(path_id(contact_id))
    return Done(
        link(path_of_list(changes.contact_list), [], changes.contact_list.account_id), "The contact was deleted."
    )


def _changes(transaction: Transaction, list_id: str) -> ContactChanges:
    contact_list, allow_system = list_of_path(transaction, list_id), may(MANAGE)
    return ContactChanges(ContactActs(transaction, services().settings.secret_key, contact_list, allow_system))


def _path(contact_list: ListSpec, contact_id: int) -> str:
    return link(path_of_contact(contact_list, contact_id), [], contact_list.account_id)
