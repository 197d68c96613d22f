"""Contacts: adding them to a list, and one with why it gets no messages (docs/console.md#lists-and-contacts)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flask import Response, request
from flask.views import MethodView

from app.accounts.sessions import MANAGE
from app.console.contact_form import ContactChanges, cells_of, inputs_of
from app.console.contacts import path_of_contact, read_contact, state_of
from app.console.lists import name_of, path_of_list
from app.console.messages import PATH as OF_MESSAGES
from app.contacts.by_hand import ContactActs
from app.db.database import Transaction
from app.db.models import Account
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.searches import link
from app.http.context import services
from app.http.paths import path_id
from app.lists.fields import ListSpec
from blueprints.console.blueprint import blp
from blueprints.console.list_page import list_of_path, list_page, may_write


@blp.route("/lists/<list_id>/contacts")
class Contacts(MethodView):
    """Adding contacts."""

    @blp.scope("contact.create")
    def post(self, list_id: str) -> Response:
        """Creates the contact of the form."""
        try:
            with services().database.write() as transaction:
                changes = _changes(transaction, list_id)
                contact_id = changes.add(cells_of(changes.contact_list, request.form))
        except ServiceError as error:
            return list_page(list_id, error, new_contact=request.form)
        return goes_to(_path(changes.contact_list, contact_id))


@blp.route("/lists/<list_id>/contacts/<contact_id>")
class OneContact(MethodView):
    """One contact."""

    @blp.scope("contact.view")
    def get(self, list_id: str, contact_id: str) -> Response:
        """The values of the contact, its latest messages, and what keeps others away."""
        return _page(list_id, contact_id)

    @blp.scope("contact.update")
    def post(self, list_id: str, contact_id: str) -> Response:
        """Writes the values of the form."""

        def write(changes: ContactChanges, one: int) -> None:
            changes.write(one, cells_of(changes.contact_list, request.form))

        return _changed(list_id, contact_id, write, form=request.form)


@blp.route("/lists/<list_id>/contacts/<contact_id>/subscription")
class Subscription(MethodView):
    """Whether an address of a contact is subscribed."""

    @blp.scope("contact.update")
    def post(self, list_id: str, contact_id: str) -> Response:
        """Subscribes it, or unsubscribes it from the list."""
        kind, wanted = (request.form.get(name, "") for name in ("kind", "subscribed"))
        return _changed(list_id, contact_id, lambda changes, one: changes.subscribe(one, kind, wanted == "true"))


@blp.route("/lists/<list_id>/contacts/<contact_id>/delete")
class DeleteContact(MethodView):
    """Deleting a contact."""

    @blp.scope("contact.delete")
    def post(self, list_id: str, contact_id: str) -> Response:
        """Deletes the contact; its suppressions stay."""
        try:
            with services().database.write() as transaction:
                changes = _changes(transaction, list_id)
                changes.remove(path_id(contact_id))
        except ServiceError as error:
            return _page(list_id, contact_id, error)
        return goes_to(link(path_of_list(changes.contact_list), [], changes.contact_list.account_id))


def _changes(transaction: Transaction, list_id: str) -> ContactChanges:
    contact_list, allow_system = list_of_path(transaction, list_id), MANAGE in signed_in().scopes
    return ContactChanges(ContactActs(transaction, services().settings.secret_key, contact_list, allow_system))


def _changed(
    list_id: str,
    contact_id: str,
    change: Callable[[ContactChanges, int], None],
    form: Mapping[str, str] | None = None,
) -> Response:
    """The page of the contact again, which tells of a refusal."""
    try:
        with services().database.write() as transaction:
            changes = _changes(transaction, list_id)
            change(changes, path_id(contact_id))
    except ServiceError as error:
        return _page(list_id, contact_id, error, form)
    return goes_to(_path(changes.contact_list, path_id(contact_id)))


def _path(contact_list: ListSpec, contact_id: int) -> str:
    return link(path_of_contact(contact_list, contact_id), [], contact_list.account_id)


def _page(
    list_id: str, contact_id: str, error: ServiceError | None = None, form: Mapping[str, str] | None = None
) -> Response:
    if error is not None and error.code == "not_found":
        raise error
    settings = services().settings
    with services().database.read() as session:
        contact_list = list_of_path(session, list_id)
        account, one = session.get_one(Account, contact_list.account_id), path_id(contact_id)
        found = read_contact(session, settings, account, contact_list, one)
        return page(
            "contact.html",
            status_of(error),
            found=found,
            item=found.item,
            state=state_of(found.item),
            list_name=name_of(contact_list),
            inputs=inputs_of(contact_list, found.item, form),
            form=form,
            refused=texts_of(error),
            at=lambda path: link(path, [], account.id),
            of=path_of_contact(contact_list, one),
            of_list=path_of_list(contact_list),
            messages=link(OF_MESSAGES, [("contact_id", str(one))], account.id),
            may_update=may_write(contact_list, "contact.update"),
            may_delete=may_write(contact_list, "contact.delete"),
            may_forget=MANAGE in signed_in().scopes,
        )
