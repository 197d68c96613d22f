"""Importing contacts into a list (docs/console.md#importing-contacts)."""

from __future__ import annotations

import base64
import binascii

from flask import Response, request
from flask.views import MethodView

from app.console.contact_import import (
    Checked,
    Choices,
    attributes_of,
    cell_of,
    check_file,
    try_out,
)
from app.console.lists import name_of, path_of_list
from app.console.uploads import MOST_BYTES
from app.contacts.imports import import_at_once
from app.errors import ServiceError
from app.http.console.pages import goes_to, page
from app.http.console.searches import link
from app.http.context import services
from app.lists.fields import ListSpec
from blueprints.console.blueprint import blp
from blueprints.console.list_page import list_of_path, list_page, may_write

MOST_SENT_BACK = 2 * MOST_BYTES
"""Bytes of the form with which a preview is imported: the file is in it, in base64."""
SHOWN_ROWS = 10


@blp.route("/lists/<list_id>/import/preview")
class ContactPreview(MethodView):
    """What a file would do."""

    @blp.scope("contact.create")
    def post(self, list_id: str) -> Response:
        """Checks the file, with the columns of the form if it has any, and shows its first faults. Stores nothing."""
        request.max_form_memory_size = MOST_SENT_BACK
        try:
            contact_list, content = _list(list_id), _content()
            checked = check_file(
                services().database, contact_list, content, _choices(request.form.getlist("column") or None)
            )
        except ServiceError as error:
            return list_page(list_id, error)
        return _preview(contact_list, checked, content)


@blp.route("/lists/<list_id>/import")
class ContactImport(MethodView):
    """Importing what a preview has shown."""

    @blp.scope("contact.create")
    def post(self, list_id: str) -> Response:
        """Creates and updates the contacts of the valid rows, all or none."""
        request.max_form_memory_size = MOST_SENT_BACK
        try:
            contact_list, content = _list(list_id), _content()
            checked = check_file(services().database, contact_list, content, _choices(request.form.getlist("column")))
            if checked.problem is None and request.form.getlist("shown") != _shown(checked):
                checked.problem = "This is not what was shown before. Look at it, and import it then."
            if checked.problem is not None:
                return _preview(contact_list, checked, content, 422)
            with services().database.write() as transaction:
                import_at_once(transaction, contact_list, checked.contacts)
        except ServiceError as error:
            return list_page(list_id, error)
        return goes_to(link(path_of_list(contact_list), [], contact_list.account_id))


def _list(list_id: str) -> ListSpec:
    """The list of the path. Raises `list_not_mutable` for a system list that the session may not change."""
    with services().database.read() as session:
        contact_list = list_of_path(session, list_id)
    if not may_write(contact_list, "contact.create"):
        raise ServiceError("list_not_mutable")
    return contact_list


def _content() -> bytes:
    """The file, or what a preview sends back of it. Raises `invalid_string` for what no preview has sent."""
    file = request.files.get("file")
    if file is not None:
        return bytes(file.read(MOST_BYTES + 1))
    try:
        return base64.b64decode(request.form.get("content", ""), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ServiceError("invalid_string", field="content", detail="Choose the file again.") from None


def _choices(columns: list[str] | None) -> Choices:
    return Choices(columns, empty_clears="empty_clears" in request.form)


def _shown(checked: Checked) -> list[str]:
    """What a preview sends back of what it has shown: the columns, whether empty cells clear fields, and the numbers of
    valid and faulty rows."""
    return [*checked.keys, str(checked.empty_clears).lower(), str(len(checked.rows)), str(checked.faulty)]


def _preview(contact_list: ListSpec, checked: Checked, content: bytes, status: int = 200) -> Response:
    problem = checked.problem
    upserted = try_out(services().database, contact_list, checked) if problem is None and checked.rows else None
    path = path_of_list(contact_list)
    return page(
        "contacts_preview.html",
        status,
        contact_list=contact_list,
        name=name_of(contact_list),
        checked=checked,
        upserted=upserted,
        refused=[checked.problem] if checked.problem else [],
        content=base64.urlsafe_b64encode(content).decode("ascii"),
        attributes=attributes_of(contact_list),
        sent_back=_shown(checked),
        shown=checked.rows[:SHOWN_ROWS],
        cell_of=cell_of,
        action=link(f"{path}/import", [], contact_list.account_id),
        preview=link(f"{path}/import/preview", [], contact_list.account_id),
        back=link(path, [], contact_list.account_id),
    )
