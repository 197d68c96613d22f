"""Keys of the API, and the networks from which they work (docs/console-contents.md#keys-of-the-api)."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Response, request

from app.accounts.accounts import update_account
from app.accounts.auth import MANAGE, SCOPES
from app.accounts.keys import restore_key, revoke_key, rotate_key, set_smtp_list
from app.accounts.testing import create_key
from app.clock import timestamp
from app.console.keys import OVERLAPS, PATH, find_key, key_states, overlap_of
from app.db.database import ReadSession, Transaction
from app.db.models import ApiKey
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.notices import Done
from app.http.console.pages import form_texts, link, page, page_after
from app.http.console.questions import Question
from app.http.console.searches import account_of_request, choose_account, csv_file, named_account_id
from app.http.context import check_network, client_address, services
from app.http.paths import path_id
from blueprints.console.blueprint import blp

KEY_COLUMNS = ("id", "name", "access_level", "token_hint", "creation_time", "last_used_time", "revoked_time")
STATE_COLUMNS = ("is_test", "state", "end_time", "list_name")


@blp.shows("/keys", MANAGE)
def keys(error: ServiceError | None = None, **_parts: str) -> Response:
    """The keys of the account, with those of the test account; after a refusal with why, and what the forms said."""
    with services().database.read() as session:
        if named_account_id(session) is None:
            return choose_account(session, PATH, "Keys")
        account = account_of_request(session)
        states = key_states(session, account)
    return page_after(
        error,
        "keys.html",
        account=account,
        items=states,
        levels={level: ", ".join(scopes) for level, scopes in SCOPES.items()},
        overlaps=OVERLAPS,
        form=request.form,
        action=link(PATH),
        takes_mail=services().settings.submission_listen is not None,
        of_networks=link(f"{PATH}/networks"),
        csv=link(f"{PATH}.csv"),
    )


@blp.changes("/keys", MANAGE, refused=keys)
def create(transaction: Transaction) -> Response:
    """Issues a key, and shows its token, only this once."""
    form = form_texts("name", "level", "test")
    account, is_test = account_of_request(transaction), bool(form["test"])
    key, token = create_key(transaction, account, form["name"], form["level"], is_test=is_test)
    return _with_token(key, token)


@blp.shows("/keys.csv", MANAGE)
def keys_file() -> Response:
    """The keys of the page as a file, a row for each."""
    with services().database.read() as session:
        states = key_states(session, account_of_request(session))
    rows = (
        [*(getattr(state, name) for name in STATE_COLUMNS), *(getattr(state.key, name) for name in KEY_COLUMNS)]
        for state in states
    )
    return csv_file("keys.csv", (*STATE_COLUMNS, *KEY_COLUMNS), rows)


@blp.changes("/keys/networks", MANAGE, refused=keys)
def allow_networks(transaction: Transaction) -> Done:
    """Lets keys work from the networks of the form alone; from all, where it names none. Who would shut themselves out
    is refused."""
    account = account_of_request(transaction)
    update_account(transaction, account, {"allowed_networks": request.form.get("networks", "").split()})
    if not signed_in().is_operator:
        _check_own_network(account.allowed_networks)
    return Done(link(PATH), "The networks were saved.")


def _check_own_network(networks: Sequence[str]) -> None:
    """Raises `ip_restricted` for networks that the request does not come from."""
    try:
        check_network(networks)
    except ServiceError:
        detail = f"Your own address, {client_address()}, is in none of these networks. Nothing was saved."
        raise ServiceError("ip_restricted", detail=detail) from None


@blp.changes("/keys/<key_id>/list", MANAGE, refused=keys)
def choose_list(transaction: Transaction, key_id: str) -> Done:
    """Gives a key the list of the form, by its name or id, for mails that are sent by SMTP; none, where it is empty."""
    key = find_key(transaction, signed_in().account_id, path_id(key_id))
    set_smtp_list(transaction, key, form_texts("list")["list"] or None)
    return Done(link(PATH, [], key.account_id), f"The list of {key.name} was saved.")


def _before_rotating(session: ReadSession, key_id: str) -> Question | None:
    key = find_key(session, signed_in().account_id, path_id(key_id))
    if overlap_of(request.form.get("overlap", "")):
        return None
    loss = "Requests with the old token are refused at once. The next page shows the new token."
    back = link(PATH, [], key.account_id)
    return Question(f"Rotate the key {key.name} now?", [*_last_use(key), loss], "Rotate key", back)


@blp.changes("/keys/<key_id>/rotate", MANAGE, refused=keys, asks=_before_rotating)
def rotate(transaction: Transaction, key_id: str) -> Response:
    """Makes a new token for a key, and shows it, only this once; the old one goes on working for as long as the form
    says."""
    key = find_key(transaction, signed_in().account_id, path_id(key_id))
    made, token, end = rotate_key(transaction, key, overlap_of(request.form.get("overlap", "")))
    return _with_token(made, token, until=end)


def _last_use(key: ApiKey) -> Sequence[str]:
    used = key.last_used_time
    return (
        "It has not been used." if used is None else f"Its last use was at {timestamp(used)}.",
        "A use in the last minute may not be recorded yet.",
    )


def _before_revoking(session: ReadSession, key_id: str) -> Question:
    key = find_key(session, signed_in().account_id, path_id(key_id))
    facts = [
        *_last_use(key),
        "Requests with this key or its old tokens are refused at once. You can undo this for 30 seconds.",
    ]
    return Question(f"Revoke the key {key.name}?", facts, "Revoke key", link(PATH, [], key.account_id))


@blp.changes("/keys/<key_id>/revoke", MANAGE, asks=_before_revoking)
def revoke(transaction: Transaction, key_id: str) -> Done:
    """Ends a key and its former tokens at once."""
    key = find_key(transaction, signed_in().account_id, path_id(key_id))
    revoke_key(transaction, key)
    undo = link(f"{PATH}/{key.id}/restore", [], key.account_id)
    return Done(link(PATH, [], key.account_id), f"{key.name} was revoked. Requests with this key are refused.", undo)


@blp.changes("/keys/<key_id>/restore", MANAGE, refused=keys)
def restore(transaction: Transaction, key_id: str) -> Done:
    """Takes back a revocation, for half a minute."""
    key = find_key(transaction, signed_in().account_id, path_id(key_id))
    restore_key(transaction, key)
    return Done(link(PATH, [], key.account_id), f"{key.name} was restored. Requests with this key are accepted.")


def _with_token(key: ApiKey, token: str, until: object = None) -> Response:
    return page("key_token.html", name=key.name, token=token, until=until, of=link(PATH))
