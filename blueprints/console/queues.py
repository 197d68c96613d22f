"""The send queue: whose turn it is, what waits for its next try, and which transports are paused
(docs/console.md#queues)."""

from __future__ import annotations

from flask import Response, request
from flask.views import MethodView

from app.clock import now
from app.console.deferred import LOOKED_AT, backoffs, deferred_by_domain
from app.console.installation import queue_figures, transport_states
from app.console.queues import PATH, switch_transport, turn_of, turns_of_all
from app.console.scopes import OPERATOR
from app.db.models import Account
from app.errors import CATALOGUE, ServiceError
from app.http.console.guard import chosen_account_id, signed_in
from app.http.console.pages import goes_to, page
from app.http.context import extension, services
from app.ids import existing
from app.maintenance.figures_reader import FiguresReader
from app.maintenance.findings import are_complete
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.routing.table import DEFAULT
from app.sends.queue_begin import known_begin
from blueprints.console.blueprint import blp


@blp.route("/queues")
class Queues(MethodView):
    """What is left to send."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """Of the account; for operators of the installation, or of the account that `account` names."""
        account_id = chosen_account_id()
        return _of_installation() if account_id is None else _of_account(account_id)


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
            return _of_installation(error)
        return goes_to(PATH)


def _of_account(account_id: int) -> Response:
    parts, moment, begin = services(), now(), known_begin(services().redis)
    with parts.database.read() as session:
        account = existing(session.get(Account, account_id), "account", account_id)
        viewer = Viewer(sees_contacts=True, redaction=Redaction.of(parts.settings))
        return page(
            "queues_account.html",
            account=account,
            turn=turn_of(session, account, begin, moment),
            deferred=deferred_by_domain(session, account.id, moment),
            backoffs=backoffs(session, account.id, moment),
            moment=moment,
            looked_at=LOOKED_AT,
            said=(lambda one: one.note) if signed_in().is_operator else (lambda one: viewer.redacted(one.reason)),
        )


def _of_installation(error: ServiceError | None = None) -> Response:
    """The figures are those of the last reading, as on the overview."""
    reading, parts, moment = extension(FiguresReader).latest(), services(), now()
    figures = reading.figures if reading is not None else {}
    is_known, begin = are_complete(figures), known_begin(parts.redis)
    with parts.database.read() as session:
        return page(
            "queues.html",
            200 if error is None else CATALOGUE[error.code].status,
            refused=[] if error is None else [one.developer_message for one in error.errors],
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
