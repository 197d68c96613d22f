"""Keys of the API, and the networks from which they work (docs/console.md#keys-of-the-api)."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response, request
from flask.views import MethodView

from app.accounts.accounts import update_account
from app.accounts.auth import SCOPES
from app.accounts.keys import revoke_key, rotate_key
from app.accounts.sessions import MANAGE
from app.console.keys import OVERLAPS, PATH, create_key, find_key, key_states, overlap_of
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.searches import account_of_request, choose_account, csv_file, link, named_account_id
from app.http.context import check_network, services
from app.http.paths import path_id
from blueprints.console.blueprint import blp

OF_KEY = ("id", "name", "access_level", "token_hint", "creation_time", "last_used_time", "revoked_time")
OF_STATE = ("is_test", "state", "end_time")


@blp.route("/keys")
class Keys(MethodView):
    """The keys of an account."""

    @blp.scope(MANAGE)
    def get(self) -> Response:
        """The keys of the account, with those of the test account."""
        return _page()

    @blp.scope(MANAGE)
    def post(self) -> Response:
        """Issues a key, and shows its token, only this once."""
        form = {name: request.form.get(name, "").strip() for name in ("name", "level", "test")}
        try:
            with services().database.write() as transaction:
                account = account_of_request(transaction)
                key, token = create_key(transaction, account, form["name"], form["level"], is_test=bool(form["test"]))
                name = key.name
        except ServiceError as error:
            return _page(error, form)
        return _with_token(name, token)


@blp.route("/keys.csv")
class KeysFile(MethodView):
    """The keys of the page as a file."""

    @blp.scope(MANAGE)
    def get(self) -> Response:
        """A row for each key."""
        with services().database.read() as session:
            shown = key_states(session, account_of_request(session))
        rows = (
            [*(getattr(one, name) for name in OF_STATE), *(getattr(one.key, name) for name in OF_KEY)] for one in shown
        )
        return csv_file("keys.csv", (*OF_STATE, *OF_KEY), rows)


@blp.route("/keys/networks")
class Networks(MethodView):
    """The networks from which the keys work."""

    @blp.scope(MANAGE)
    def post(self) -> Response:
        """Allows those of the form alone; all, where it names none. Who would shut themselves out is refused."""
        wanted = request.form.get("networks", "").split()
        try:
            with services().database.write() as transaction:
                account = account_of_request(transaction)
                update_account(transaction, account, {"allowed_networks": wanted})
                if not signed_in().is_operator:
                    check_network(account.allowed_networks)
        except ServiceError as error:
            return _page(error, {"networks": "\n".join(wanted)})
        return goes_to(link(PATH))


@blp.route("/keys/<key_id>/rotate")
class Rotate(MethodView):
    """A new secret for a key."""

    @blp.scope(MANAGE)
    def post(self, key_id: str) -> Response:
        """Makes it, and shows it, only this once; the old one goes on working for as long as the form says."""
        try:
            with services().database.write() as transaction:
                key = find_key(transaction, signed_in().account_id, path_id(key_id))
                made, token, end = rotate_key(transaction, key, overlap_of(request.form.get("overlap", "")))
                name = made.name
        except ServiceError as error:
            return _page(error)
        return _with_token(name, token, until=end)


@blp.route("/keys/<key_id>/revoke")
class Revoke(MethodView):
    """Revoking a key."""

    @blp.scope(MANAGE)
    def post(self, key_id: str) -> Response:
        """Ends the key and its former secrets at once."""
        with services().database.write() as transaction:
            key = find_key(transaction, signed_in().account_id, path_id(key_id))
            account_id = key.account_id
            revoke_key(transaction, key)
        return goes_to(link(PATH, [], account_id))


def _page(error: ServiceError | None = None, form: Mapping[str, str] | None = None) -> Response:
    if error is not None and error.code == "not_found":
        raise error
    with services().database.read() as session:
        if named_account_id(session) is None:
            return choose_account(session, PATH, "Keys")
        account = account_of_request(session)
        shown = key_states(session, account)
    return page(
        "keys.html",
        status_of(error),
        account=account,
        items=shown,
        levels={level: ", ".join(scopes) for level, scopes in SCOPES.items()},
        overlaps=OVERLAPS,
        form=form or {},
        refused=texts_of(error),
        action=link(PATH),
        of_networks=link(f"{PATH}/networks"),
        csv=link(f"{PATH}.csv"),
    )


def _with_token(name: str, token: str, until: object = None) -> Response:
    return page("key_token.html", name=name, token=token, until=until, of=link(PATH))
