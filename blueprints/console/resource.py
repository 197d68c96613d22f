"""The views of a defined noun in the console (docs/architecture.md#resource-definitions)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flask import Response, request
from flask.views import MethodView

from app.console.queries import IN_A_FILE
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to
from app.http.console.searches import account_of_request, csv_file, link
from app.http.context import services
from app.http.paths import path_id
from app.resources.definition import ResourceDefinition
from app.resources.rows import create_item, given_by_texts, item_with_id, rows_of_account
from blueprints.console.blueprint import blp

MOST = 200
"""Rows of a noun that a page has, by their key."""
Page = Callable[[ServiceError, Mapping[str, str]], Response]
"""The page with the form, from why it was refused and what it said."""


def add_views(resource: ResourceDefinition, of: str, page: Page) -> None:
    """Adds the views of a noun whose table and form stand on the page at the path `of`."""
    path = f"/{resource.plural}"
    blp.route(path, endpoint=f"{resource.plural}_create")(_create_view(resource, of, page))
    blp.route(f"{path}.csv", endpoint=f"{resource.plural}_file")(_file_view(resource))
    blp.route(f"{path}/<{resource.noun}_id>/delete", endpoint=f"{resource.plural}_delete")(_delete_view(resource, of))


def _create_view(resource: ResourceDefinition, of: str, page: Page) -> type[MethodView]:
    class Create(MethodView):
        """Making one."""

        @blp.scope(resource.scopes["create"])
        def post(self) -> Response:
            """Makes what the form says."""
            form = {one.name: request.form.get(one.name, "").strip() for one in resource.given}
            try:
                with services().database.write() as transaction:
                    account_id = account_of_request(transaction).id
                    create_item(transaction, resource, account_id, given_by_texts(resource, form))
            except ServiceError as error:
                return page(error, form)
            return goes_to(link(of, [], account_id))

    return Create


def _file_view(resource: ResourceDefinition) -> type[MethodView]:
    class File(MethodView):
        """All as a file."""

        @blp.scope(resource.scopes["list"])
        def get(self) -> Response:
            """A row for each."""
            with services().database.read() as session:
                rows = rows_of_account(session, resource, account_of_request(session).id, IN_A_FILE)
            head = [one.key for one in resource.read]
            return csv_file(f"{resource.plural}.csv", head, (list(row.values()) for row in rows))

    return File


def _delete_view(resource: ResourceDefinition, of: str) -> type[MethodView]:
    class Delete(MethodView):
        """Deleting one."""

        @blp.scope(resource.scopes["delete"])
        def post(self, **ids: str) -> Response:
            """Deletes the row that the path names."""
            (item_id,) = ids.values()
            with services().database.write() as transaction:
                item = item_with_id(transaction, resource, signed_in().account_id, path_id(item_id))
                account_id = item.account_id
                transaction.delete(item)
            return goes_to(link(of, [], account_id))

    return Delete
