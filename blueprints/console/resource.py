"""The views of a defined noun in the console (docs/code-layout.md#resource-definitions)."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response

from app.console.queries import FILE_ROWS
from app.db.database import ReadSession, Transaction
from app.db.lookup import find_with_id
from app.http.console.guard import signed_in
from app.http.console.notices import Done
from app.http.console.pages import form_texts, link
from app.http.console.questions import Question
from app.http.console.searches import account_of_request, table_file
from app.http.context import services
from app.http.paths import path_id
from app.resources.definition import ResourceDefinition, values_of
from app.resources.rows import create_item, row_of, rows_of_account
from blueprints.console.blueprint import blp

MAX_ROWS = 200
"""Rows of a noun that a page has, by their key."""


def add_views(resource: ResourceDefinition, of: str, page: Callable[..., Response]) -> None:
    """Adds the views of a noun whose table and form stand on the page at the path `of`, which `page` shows after a
    refusal."""
    path = f"/{resource.plural}"

    @blp.changes(path, resource.scopes["create"], refused=page)
    def create(transaction: Transaction) -> Done:
        """Makes what the form says."""
        account_id = account_of_request(transaction).id
        form = form_texts(*(attribute.key for attribute in resource.input_attributes))
        create_item(transaction, resource, account_id, values_of(resource.input_attributes, form))
        return Done(link(of, [], account_id), resource.done["create"])

    @blp.shows(f"{path}.csv", resource.scopes["list"])
    def file() -> Response:
        """A row for each, as a file."""
        with services().database.read() as session:
            rows = rows_of_account(session, resource, account_of_request(session).id, FILE_ROWS)
        return table_file(f"{resource.plural}.csv", [attribute.key for attribute in resource.read_attributes], rows)

    def before_deleting(session: ReadSession, **ids: str) -> Question:
        (item_id,) = ids.values()
        item = find_with_id(session, resource.model, signed_in().account_id, path_id(item_id), resource.noun)
        verb, name = resource.buttons["delete"], row_of(session, resource, item)[resource.key]
        facts = [resource.loss, *resource.uses(session, item)]
        return Question(f"{verb} {name}?", facts, f"{verb} {name}", link(of, [], item.account_id))

    @blp.changes(f"{path}/<{resource.noun}_id>/delete", resource.scopes["delete"], asks=before_deleting)
    def delete(transaction: Transaction, **ids: str) -> Done:
        """Deletes the row that the path names."""
        (item_id,) = ids.values()
        item = find_with_id(transaction, resource.model, signed_in().account_id, path_id(item_id), resource.noun)
        transaction.delete(item)
        return Done(link(of, [], item.account_id), resource.done["delete"])
