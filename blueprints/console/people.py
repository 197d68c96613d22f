"""People: what is held about one, handing it out, and forgetting it (docs/console.md#forgetting-a-person)."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response, request
from flask.views import MethodView

from app.accounts.sessions import MANAGE
from app.console.people import PATH, Whom, check_confirmation, forget_person, held_of, person_document, whom
from app.errors import ServiceError
from app.http.console.pages import page, status_of, texts_of
from app.http.console.searches import account_of_request, choose_account, link, named_account_id
from app.http.context import services
from blueprints.console.blueprint import blp


@blp.route("/people")
class People(MethodView):
    """People of an account."""

    @blp.scope(MANAGE)
    def get(self) -> Response:
        """Asks for an address, which is in no path and no query."""
        return _ask()


@blp.route("/people/held")
class Held(MethodView):
    """What is held about a person."""

    @blp.scope(MANAGE)
    def post(self) -> Response:
        """Shows how much of it there is, and what forgetting would remove and keep. Changes nothing."""
        return _of_person(_held)


@blp.route("/people/forget")
class Forget(MethodView):
    """Forgetting a person."""

    @blp.scope(MANAGE)
    def post(self) -> Response:
        """Removes all that is held, once the address was typed."""
        return _of_person(_forget)


@blp.route("/people/export")
class ExportPerson(MethodView):
    """Handing out what is held about a person."""

    @blp.scope(MANAGE)
    def post(self) -> Response:
        """All of it as a JSON file, made while it is sent."""
        return _of_person(_export)


def _of_person(act: Callable[[Whom], Response]) -> Response:
    """What is done about the person of the form; an address that is none is asked for again."""
    try:
        with services().database.read() as session:
            person = whom(session, account_of_request(session), request.form.get("address", "").strip())
    except ServiceError as error:
        return _ask(error)
    return act(person)


def _forget(person: Whom) -> Response:
    try:
        check_confirmation(person, request.form.get("confirmation", "").strip())
    except ServiceError as error:
        return _held(person, error)
    return page(
        "person_forgotten.html",
        person=person,
        forgotten=forget_person(services(), person),
        of_forget=link(f"{PATH}/forget"),
        of_held=link(f"{PATH}/held"),
        of_people=link(PATH),
    )


def _export(person: Whom) -> Response:
    parts = person_document(services(), person)
    if parts is None:
        return _held(person)
    headers = {"Content-Disposition": 'attachment; filename="person.json"'}
    return Response(parts, content_type="application/json; charset=utf-8", headers=headers)


def _ask(error: ServiceError | None = None) -> Response:
    if error is not None and error.code == "not_found":
        raise error
    with services().database.read() as session:
        if named_account_id(session) is None:
            return choose_account(session, PATH, "People")
        account = account_of_request(session)
    known = {"address": request.form.get("address", ""), "action": link(f"{PATH}/held")}
    return page("people.html", status_of(error), account=account, refused=texts_of(error), **known)


def _held(person: Whom, error: ServiceError | None = None) -> Response:
    links = {"of_forget": link(f"{PATH}/forget"), "of_export": link(f"{PATH}/export"), "of_people": link(PATH)}
    found = held_of(services(), person)
    return page("person.html", status_of(error), person=person, held=found, refused=texts_of(error), **links)
