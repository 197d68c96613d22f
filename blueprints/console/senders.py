"""Approving and withdrawing senders of text messages (docs/console.md#domains-and-senders)."""

from __future__ import annotations

from flask import Response, request
from flask.views import MethodView

from app.console.domains import PATH, add_sender, sender_with_id, shown_senders
from app.console.scopes import MANAGE, OPERATOR
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to
from app.http.console.searches import account_of_request, csv_file, link
from app.http.context import services
from app.http.paths import path_id
from blueprints.console.blueprint import blp
from blueprints.console.domains import domains_page

SENDER_COLUMNS = ("id", "address", "kind", "list_id", "list", "messages_per_second", "creation_time")


@blp.route("/senders")
class Senders(MethodView):
    """Senders of text messages; the page of the domains shows them."""

    @blp.scope(OPERATOR)
    def post(self) -> Response:
        """Approves the sender of the form. Nothing proves whose a number or a name is, so an operator decides."""
        form = {name: request.form.get(name, "").strip() for name in ("address", "kind", "list", "rate", "shared")}
        try:
            with services().database.write() as transaction:
                account = account_of_request(transaction)
                add_sender(transaction, account.id, form)
                account_id = account.id
        except ServiceError as error:
            return domains_page(error, form)
        return goes_to(link(PATH, [], account_id))


@blp.route("/senders.csv")
class SendersFile(MethodView):
    """The senders as a file."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """A row for each sender."""
        with services().database.read() as session:
            found = shown_senders(session, account_of_request(session).id)
        rows = (
            [one.list_id if name == "list_id" else getattr(one.sender, name, one.list_name) for name in SENDER_COLUMNS]
            for one in found
        )
        return csv_file("senders.csv", SENDER_COLUMNS, rows)


@blp.route("/senders/<sender_id>/delete")
class DeleteSender(MethodView):
    """Withdrawing the approval of a sender."""

    @blp.scope(MANAGE)
    def post(self, sender_id: str) -> Response:
        """Sends from it are refused from then on."""
        with services().database.write() as transaction:
            sender = sender_with_id(transaction, signed_in().account_id, path_id(sender_id))
            account_id = sender.account_id
            transaction.delete(sender)
        return goes_to(link(PATH, [], account_id))
