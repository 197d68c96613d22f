"""Suppressions: searching, adding and removing them (docs/console-contents.md#suppressions)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from flask import Response

from app.bulk_actions.kinds import UNBLOCK
from app.clock import timestamp
from app.console.bulk_actions import offers_unblocking
from app.console.messages import PATH as MESSAGES_PATH
from app.console.offers import newest
from app.console.queries import SearchPage, SearchRequest, address_filter, without_cursor
from app.console.suppressions import (
    PATH,
    REMOVALS,
    Cause,
    SuppressionForm,
    causes,
    read_form,
    remove_suppression,
    search,
    words_of,
)
from app.console.uploads import MAX_ROWS
from app.db.database import ReadSession, Transaction
from app.db.models import List
from app.errors import ServiceError
from app.http.console.guard import may, signed_in
from app.http.console.notices import Done
from app.http.console.pages import form_texts, link, page
from app.http.console.questions import Question
from app.http.console.searches import Search, account_of_request, export_recorder
from app.http.context import services
from app.http.paths import path_id
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.suppressions.acts import add_suppression
from app.suppressions.entries import Suppression, find_suppression
from app.suppressions.states import STATES
from blueprints.console.blueprint import blp
from blueprints.console.bulk_actions import BulkPreview


def _row(suppression: Suppression) -> Mapping[str, Any] | None:
    """A suppression as a row of the file; None for a forgotten person."""
    if suppression.address is None:
        return None
    return {**asdict(suppression), "list": suppression.list_name, "list_id": suppression.list_id}


def _page_context(search_request: SearchRequest, _search_page: SearchPage) -> Mapping[str, Any]:
    pairs = without_cursor(search_request.pairs)
    unblocks = (
        link(f"{PATH}/unblock", pairs)
        if may("contact.update") and offers_unblocking(search_request.account, pairs)
        else None
    )
    lists = newest(search_request.session, List, search_request.account_id) if may("contact.update") else ()
    return {"redact": _redaction(), "unblocks": unblocks, "lists": lists}


SEARCH = Search(
    path=PATH,
    title="Suppressions",
    template="suppressions.html",
    text_filter=address_filter,
    find=search,
    columns=("state", "kind", "address", "list_id", "list", "reason", "creation_time", "reply", "uuid"),
    row=_row,
    context=lambda: {"states": STATES, "may_change": may("contact.update"), "most_rows": MAX_ROWS},
    page_context=_page_context,
    record_file=export_recorder("suppression.exported", "suppressions"),
)
blp.searches(SEARCH, "contact.view")
UNBLOCKING = BulkPreview("suppressions_unblock.html", {UNBLOCK.name: UNBLOCK}, f"{PATH}/unblock", PATH, SEARCH.title)
UNBLOCKING.add_views("/suppressions/unblock", "contact.update")


@blp.changes("/suppressions", "contact.update", refused=SEARCH.page)
def add(transaction: Transaction) -> Done:
    """Blocks or unsubscribes the address of the form."""
    form = form_texts("address", "state", "list", "reason")
    account = account_of_request(transaction)
    new = read_form(transaction, account.id, SuppressionForm(**form))
    add_suppression(transaction, services().settings.secret_key, account.id, new)
    return Done(link(PATH, [address_filter(form["address"])]), f"The address was {form['state']}.")


@blp.shows("/suppressions/<state>/<suppression_id>", "contact.view")
def suppression(state: str, suppression_id: str) -> Response:
    """Why an address gets nothing, since when, and by what."""
    secret_keys = services().settings.secret_keys
    with services().database.read() as session:
        account_id, suppression = find_suppression(session, signed_in().account_id, state, path_id(suppression_id))
        address_causes = causes(session, secret_keys, account_id, suppression)
    messages = link(MESSAGES_PATH, [address_filter(suppression.address)], account_id) if suppression.address else None
    return page(
        "suppression.html",
        suppression=suppression,
        causes=address_causes,
        redact=_redaction(),
        messages=messages,
        may_change=may("contact.update"),
    )


def removal_question(
    session: ReadSession, account_id: int, suppressions: Sequence[Suppression], state: str, *, address: str, back: str
) -> Question:
    """The question before the address loses its suppressions of that state: since when, why and by whom it has them."""
    removal, facts = REMOVALS[state], list[str]()
    entries = [suppression for suppression in suppressions if suppression.state == state]
    for suppression in entries:
        facts += [words_of(suppression), *filter(None, [_redaction()(suppression.reply)])]
    for cause in causes(session, services().settings.secret_keys, account_id, entries[-1])[:1] if entries else ():
        facts.append(f"Last change: {cause.words}{_actor_words(cause)} at {timestamp(cause.time)}.")
    return Question(f"{removal.verb} {address}?", [*facts, removal.advice], f"{removal.verb} address", back)


def _actor_words(cause: Cause) -> str:
    if cause.actor is None:
        return ""
    hides_name = cause.actor.kind == "command" and not signed_in().is_operator
    return f" by {'the operator' if hides_name else cause.actor.name}"


def _before_removing(session: ReadSession, state: str, suppression_id: str) -> Question:
    account_id, suppression = find_suppression(session, signed_in().account_id, state, path_id(suppression_id))
    back = link(f"{PATH}/{state}/{suppression.id}", [], account_id)
    return removal_question(
        session, account_id, [suppression], state, address=suppression.address or "this address", back=back
    )


@blp.changes("/suppressions/<state>/<suppression_id>/remove", "contact.update", asks=_before_removing)
def remove(transaction: Transaction, state: str, suppression_id: str) -> Done:
    """Unblocks an address, or resubscribes it."""
    account_id, suppression = find_suppression(transaction, signed_in().account_id, state, path_id(suppression_id))
    remove_suppression(transaction, services().settings.secret_key, account_id, suppression)
    return Done(
        link(PATH, [address_filter(suppression.address or "")], account_id),
        REMOVALS[state].done,
    )


def _redaction() -> Callable[[str | None], str | None]:
    """A reply as the signed-in person may read it."""
    return (lambda text: text) if signed_in().is_operator else Viewer(True, Redaction.of(services().settings)).redacted


def refused(error: ServiceError) -> Response:
    """The page, which says why a form is refused."""
    if error.code == "not_found":
        raise error
    return SEARCH.page(error)
