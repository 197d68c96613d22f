"""The send queue: whose turn it is, what waits for its next try, and which transports are paused
(docs/console.md#queues).
"""

from __future__ import annotations

from flask import Response, request
from flask.views import MethodView

from app.accounts.sessions import MANAGE, OPERATOR
from app.clock import now
from app.console.deferred import LOOKED_AT, backoffs, deferred_by_domain
from app.console.installation import queue_figures, transport_states
from app.console.queues import KINDS, PATH, PauseForm, add_pause, end_pause, switch_transport, turn_of, turns_of_all
from app.db.models import Account
from app.errors import ServiceError
from app.http.console.guard import chosen_account_id, signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.searches import link
from app.http.context import extension, services
from app.http.paths import path_id
from app.ids import existing
from app.maintenance.figures import FiguresReader
from app.maintenance.findings import are_complete
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.routing.table import DEFAULT
from app.sends.pauses.read import list_pauses, pauses_everywhere
from app.sends.queue_begin import known_begin
from blueprints.console.blueprint import blp


@blp.route("/queues")
class Queues(MethodView):
    """What is left to send."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """Of the account; for operators of the installation, or of the account that `account` names."""
        return queues_page(form=PauseForm("list", of) if (of := request.args.get("list")) else PauseForm())


@blp.route("/queues/transports/<transport_name>")
class SwitchTransport(MethodView):
    """Pausing a transport, and letting it go on."""

    @blp.scope(OPERATOR)
    def post(self, transport_name: str) -> Response:
        """Does what the field `enabled` says: `0` pauses it, `1` lets it go on."""
        wanted = request.form.get("enabled", "")
        try:
            if wanted not in ("0", "1"):
                raise ServiceError("invalid_string", field="enabled", detail=f"enabled: {wanted!r} is neither 0 nor 1.")
            with services().database.write() as transaction:
                switch_transport(transaction, services(), transport_name, enabled=wanted == "1")
        except ServiceError as error:
            return _of_installation(error, PauseForm())
        return goes_to(PATH)


def queues_page(error: ServiceError | None = None, form: PauseForm | None = None) -> Response:
    """The page of the account, or of the installation, which tells of a refusal and has the form that was refused."""
    account_id = chosen_account_id()
    shown = form or PauseForm()
    return _of_installation(error, shown) if account_id is None else _of_account(account_id, error, shown)


def _of_account(account_id: int, error: ServiceError | None, form: PauseForm) -> Response:
    parts, moment, begin = services(), now(), known_begin(services().redis)
    with parts.database.read() as session:
        account = existing(session.get(Account, account_id), "account", account_id)
        viewer = Viewer(sees_contacts=True, redaction=Redaction.of(parts.settings))
        return page(
            "queues_account.html",
            status_of(error),
            refused=texts_of(error),
            account=account,
            of=link(PATH),
            pauses=list_pauses(session, account.id),
            everywhere=pauses_everywhere(session) if account.test_of is None else [],
            may_pause=MANAGE in signed_in().scopes and account.test_of is None,
            form=form,
            kinds=KINDS,
            at=link,
            turn=turn_of(session, account, begin, moment),
            deferred=deferred_by_domain(session, account.id, moment),
            backoffs=backoffs(session, account.id, moment),
            moment=moment,
            looked_at=LOOKED_AT,
            said=(lambda one: one.note) if signed_in().is_operator else (lambda one: viewer.redacted(one.reason)),
        )


def _of_installation(error: ServiceError | None, form: PauseForm) -> Response:
    """The figures are those of the last reading, as on the overview."""
    reading, parts, moment = extension(FiguresReader).latest(), services(), now()
    figures = reading.figures if reading is not None else {}
    is_known, begin = are_complete(figures), known_begin(parts.redis)
    with parts.database.read() as session:
        return page(
            "queues.html",
            status_of(error),
            refused=texts_of(error),
            pauses=list_pauses(session, None),
            may_pause=True,
            form=form,
            kinds=KINDS,
            at=link,
            is_known=is_known,
            queue=list(queue_figures(figures)) if is_known else [],
            turns=turns_of_all(session, begin, moment),
            deferred=deferred_by_domain(session, None, moment),
            backoffs=backoffs(session, None, moment),
            transports=list(transport_states(session, parts.settings, {})),
            moment=moment,
            looked_at=LOOKED_AT,
            default=DEFAULT,
            of=PATH,
            said=lambda one: one.note,
        )


# Pausing an account, a list or a domain, and going on (docs/console.md#queues).


@blp.route("/queues/pauses")
class Pauses(MethodView):
    """What is paused."""

    @blp.scope(MANAGE)
    def post(self) -> Response:
        """Pauses what the form says, of the account; for operators of the one that `account` or the form names."""
        form = PauseForm(**{name: request.form.get(name, "").strip() for name in PauseForm.__slots__})
        try:
            with services().database.write() as transaction:
                add_pause(transaction, chosen_account_id(), form)
        except ServiceError as error:
            if error.code == "not_found":
                raise
            return queues_page(error, form)
        return goes_to(link(PATH))


@blp.route("/queues/pauses/<pause_id>/end")
class EndPause(MethodView):
    """Going on."""

    @blp.scope(MANAGE)
    def post(self, pause_id: str) -> Response:
        """Ends the pause."""
        with services().database.write() as transaction:
            end_pause(transaction, services(), chosen_account_id(), path_id(pause_id))
        return goes_to(link(PATH))
