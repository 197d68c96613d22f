"""Importing CSV files: contacts into a list (docs/console-contents.md#importing-contacts), and suppressions
(docs/console-contents.md#suppressions). A preview shows what a file would do, and sends it back when it is to be
imported."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from flask import Response, request

from app.console.lists import name_of, path_of_list
from app.console.suppressions import PATH
from app.console.uploads import MAX_BYTES, Upload, read_upload
from app.contacts.cells import flat
from app.distribution import COMMAND_LINE
from app.errors import ServiceError
from app.http.console.notices import Done
from app.http.console.pages import link, page, redirect_after
from app.http.console.searches import account_of_request
from app.http.context import services
from app.imports.importer import write_at_once
from app.imports.kinds import ContactsOfList, SuppressionsOfAccount
from app.imports.rows import Row
from blueprints.console.blueprint import blp
from blueprints.console.lists import list_of_path, list_page, may_write
from blueprints.console.suppressions import refused

MAX_SENT_BACK = 2 * MAX_BYTES
"""Bytes of the form with which a preview is imported: the file is in it, in base64."""
PREVIEW_ROWS = 10
CONTACTS_DONE = "The file was imported: {:,} created, {:,} changed."
SUPPRESSIONS_DONE = "The file was imported: {:,} added."


@blp.takes("/lists/<list_id>/import/preview", "contact.create")
def preview_contacts(list_id: str) -> Response:
    """Shows what a file would do to the contacts of a list, with the columns of the form if it has any."""
    return _answer(partial(_contacts, list_id, guess=True), partial(list_page, list_id))


@blp.takes("/lists/<list_id>/import", "contact.create")
def import_contacts(list_id: str) -> Response:
    """Creates and updates the contacts of a file that a preview has shown."""
    return _answer(partial(_contacts, list_id), partial(list_page, list_id), imports=True)


@blp.takes("/suppressions/preview", "contact.update")
def preview_suppressions() -> Response:
    """Shows which suppressions a file would add."""
    return _answer(_suppressions, refused)


@blp.takes("/suppressions/import", "contact.update")
def import_suppressions() -> Response:
    """Adds the suppressions of a file that a preview has shown."""
    return _answer(_suppressions, refused, imports=True)


class Preview(NamedTuple):
    """A file that was sent, the page that shows it, where an import of it leads, what is said there once so many were
    created and changed, and what the page says besides."""

    upload: Upload
    template: str
    leads_to: str
    done: str
    template_values: Mapping[str, Any]


def _answer(
    read: Callable[[], Preview], refuse: Callable[[ServiceError], Response], *, imports: bool = False
) -> Response:
    """Shows a file; or imports its valid rows, all or none, if it is what was shown before."""
    request.max_form_memory_size = MAX_SENT_BACK
    try:
        preview = read()
        upload = preview.upload
        if imports and upload.problem is None and request.form.getlist("shown") != upload.preview_facts:
            upload.problem = "The result of this import has changed since the preview. Check it, and then import."
        if not imports or upload.problem is not None:
            return _page(preview, 422 if imports else 200)
        with services().database.write() as transaction:
            counts = write_at_once(transaction, upload.kind, upload.rows)
    except ServiceError as error:
        return refuse(error)
    return redirect_after(Done(preview.leads_to, preview.done.format(counts.created, counts.updated)))


def _contacts(list_id: str, *, guess: bool = False) -> Preview:
    """A file for the list of the path; its columns may be guessed if the form does not say what they are. Raises
    `list_not_mutable` for a system list that the session may not change."""
    with services().database.read() as session:
        contact_list = list_of_path(session, list_id)
    if not may_write(contact_list, "contact.create"):
        raise ServiceError("list_not_mutable")
    content, chosen = _content(), request.form.getlist("column")
    kind = ContactsOfList(contact_list, empty_clears="empty_clears" in request.form)
    other_way = f"`{COMMAND_LINE} contacts import FILE.csv`"
    upload = read_upload(services().database, kind, content, other_way, None if guess and not chosen else chosen)
    path = path_of_list(contact_list)
    at = partial(link, account_id=kind.account_id)
    actions = {"action": at(f"{path}/import"), "preview": at(f"{path}/import/preview")}
    template_values = {**actions, "name": name_of(contact_list), "cell_of": _cell_of}
    return Preview(upload, "contacts_preview.html", at(path), CONTACTS_DONE, template_values)


def _suppressions() -> Preview:
    """A file for the account of the request. Raises `invalid_string` for one without a column of addresses."""
    with services().database.read() as session:
        account = account_of_request(session)
    content = _content()
    kind = SuppressionsOfAccount(account.id, request.form.get("file_state", ""))
    upload = read_upload(services().database, kind, content, "a seed file")
    if upload.problem is not None:
        raise ServiceError("invalid_string", detail=upload.problem)
    template_values = {"action": link(f"{PATH}/import"), "account": account}
    return Preview(upload, "suppressions_preview.html", link(PATH), SUPPRESSIONS_DONE, template_values)


def _content() -> bytes:
    """The file, or what a preview sends back of it. Raises `invalid_string` for what no preview has sent."""
    file = request.files.get("file")
    if file is not None:
        return bytes(file.read(MAX_BYTES + 1))
    try:
        return base64.b64decode(request.form.get("content", ""), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ServiceError("invalid_string", field="content", detail="Choose the file again.") from None


def _page(preview: Preview, status: int) -> Response:
    upload = preview.upload
    done = upload.try_out(services().database)
    return page(
        preview.template,
        status,
        upload=upload,
        done=done,
        refused=[upload.problem] if upload.problem else [],
        content=base64.urlsafe_b64encode(upload.content).decode("ascii"),
        shown_rows=upload.rows[:PREVIEW_ROWS],
        back=preview.leads_to,
        **preview.template_values,
    )


def _cell_of(row: Row, key: str) -> str:
    """What a row writes to an attribute; nothing for an empty cell."""
    value = flat(row.values).get(key)
    return "" if value is None else str(value)
