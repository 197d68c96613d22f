"""The send queue: whose turn it is, what waits for its next try, and which transports are disabled
(docs/console-messages.md#queues).
"""

from __future__ import annotations

from collections.abc import Callable

from flask import Response, request

from app.accounts.auth import MANAGE
from app.accounts.sessions import OPERATOR
from app.clock import now
from app.console.losses import loss_of_transport
from app.console.offers import newest
from app.console.overview import live_accounts, queue_figures, transport_states
from app.console.queues import (
    KINDS,
    MAX_DEFERRED,
    NO_PAUSE,
    PATH,
    Destination,
    PauseForm,
    add_pause,
    backoffs,
    deferred_by_domain,
    end_pause,
    switch_transport,
    turn_of,
    turns_of_all,
)
from app.db.database import ReadSession, Transaction
from app.db.models import Account, List
from app.errors import ServiceError
from app.http.console.guard import chosen_account_id, may, signed_in
from app.http.console.notices import Done
from app.http.console.pages import form_texts, link, page_after
from app.http.console.questions import Question
from app.http.context import extension, services
from app.http.paths import path_id
from app.ids import existing
from app.maintenance.figures import FiguresReader
from app.maintenance.findings import are_complete
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.routing.table import DEFAULT_TRANSPORT
from app.routing.transports import find_transport
from app.sends.pauses.read import list_pauses, pauses_everywhere, shown_pause
from app.sends.queue_begin import known_begin
from blueprints.console.blueprint import blp


@blp.shows("/queues", "contact.view")
def queues(error: ServiceError | None = None, **_parts: str) -> Response:
    """What is left to send: of the account; for operators of the installation, or of the account that `account`
    names."""
    account_id, form = chosen_account_id(), _form()
    return _installation_page(error, form) if account_id is None else _account_page(account_id, error, form)


def _before_disabling(session: ReadSession, transport_name: str) -> Question | None:
    transport = find_transport(session, transport_name)
    if request.form.get("enabled") != "0":
        return None
    loss = "It gets no more messages. Its messages use another transport of their route, or are tried again later."
    facts = [*loss_of_transport(session, transport), loss]
    return Question(f"Disable {transport.name}?", facts, "Disable transport", PATH)


@blp.changes(
    "/queues/transports/<transport_name>",
    OPERATOR,
    refused=lambda error, **_: _installation_page(error),
    asks=_before_disabling,
)
def switch(transaction: Transaction, transport_name: str) -> Done:
    """Does with a transport what the field `enabled` says: `0` disables it, `1` enables it."""
    enabled = request.form.get("enabled", "")
    if enabled not in ("0", "1"):
        raise ServiceError("invalid_string", field="enabled", detail=f"enabled: {enabled!r} is neither 0 nor 1.")
    switch_transport(transaction, services(), transport_name, enabled=enabled == "1")
    return Done(
        PATH,
        f"{transport_name} was enabled."
        if enabled == "1"
        else f"{transport_name} was disabled. It gets no more messages.",
    )


@blp.changes("/queues/pauses", MANAGE, refused=queues)
def pause(transaction: Transaction) -> Done:
    """Pauses what the form says, of the account; for operators of the one that `account` or the form names."""
    pause_id = add_pause(transaction, chosen_account_id(), _form())
    return Done(link(PATH), "Sending was paused.", link(f"{PATH}/pauses/{pause_id}/end"))


def _before_resuming(session: ReadSession, pause_id: str) -> Question:
    pause = existing(shown_pause(session, chosen_account_id(), path_id(pause_id)), "pause", path_id(pause_id))
    whose = f" of {pause.account}" if pause.account and signed_in().sees_all_accounts else ""
    waiting = f"{'At least ' if pause.is_least else ''}{pause.waiting or 0:,}"
    facts = [
        f"It has been paused {pause.since}.",
        f"{waiting} {'message waits' if pause.waiting == 1 else 'messages wait'}, to be sent when you resume.",
    ]
    return Question(f"Resume {pause.subject}{whose}?", facts, "Resume", link(PATH))


@blp.changes("/queues/pauses/<pause_id>/end", MANAGE, asks=_before_resuming)
def end(transaction: Transaction, pause_id: str) -> Done:
    """Ends a pause."""
    end_pause(transaction, services(), chosen_account_id(), path_id(pause_id))
    return Done(link(PATH), "Sending was resumed.")


def _form() -> PauseForm:
    """The form of a pause as it was sent, or of the list that a link names."""
    if request.form:
        return PauseForm(**form_texts(*PauseForm.__slots__))
    return PauseForm("list", of) if (of := request.args.get("list")) else NO_PAUSE


def _reason_of() -> Callable[[Destination], str | None]:
    """What of the latest attempt of deferred messages is shown: the note only to operators."""
    if signed_in().is_operator:
        return lambda destination: destination.note
    viewer = Viewer(sees_contacts=True, redaction=Redaction.of(services().settings))
    return lambda destination: viewer.redacted(destination.reason)


def _account_page(account_id: int, error: ServiceError | None, form: PauseForm) -> Response:
    parts, moment, begin = services(), now(), known_begin(services().redis)
    with parts.database.read() as session:
        account = existing(session.get(Account, account_id), "account", account_id)
        return page_after(
            error,
            "queues_account.html",
            account=account,
            of=link(PATH),
            pauses=list_pauses(session, account.id),
            lists=newest(session, List, account.id),
            everywhere=pauses_everywhere(session) if account.test_of is None else [],
            may_pause=may(MANAGE) and account.test_of is None,
            form=form,
            kinds=KINDS,
            turn=turn_of(session, account, begin, moment),
            deferred=deferred_by_domain(session, account.id, moment),
            backoffs=backoffs(session, account.id, moment),
            moment=moment,
            looked_at=MAX_DEFERRED,
            reason_of=_reason_of(),
        )


def _installation_page(error: ServiceError | None, form: PauseForm = NO_PAUSE) -> Response:
    """The figures are those of the last reading, as on the overview."""
    reading, parts, moment = extension(FiguresReader).latest(), services(), now()
    figures = reading.figures if reading is not None else {}
    is_known, begin = are_complete(figures), known_begin(parts.redis)
    with parts.database.read() as session:
        return page_after(
            error,
            "queues.html",
            lists=(),
            accounts=live_accounts(session),
            pauses=list_pauses(session, None),
            may_pause=signed_in().is_operator,
            form=form,
            kinds=KINDS,
            is_known=is_known,
            queue=list(queue_figures(figures)) if is_known else [],
            turns=turns_of_all(session, begin, moment),
            deferred=deferred_by_domain(session, None, moment),
            backoffs=backoffs(session, None, moment),
            transports=list(transport_states(session, parts.settings, {})),
            moment=moment,
            looked_at=MAX_DEFERRED,
            default=DEFAULT_TRANSPORT,
            of=PATH,
            reason_of=_reason_of(),
        )
