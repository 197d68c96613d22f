"""People: what is held about one, handing it out, and forgetting it (docs/console-contents.md#forgetting-a-person)."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response, request

from app.accounts.auth import MANAGE
from app.console.people import (
    PATH,
    PersonAddress,
    check_confirmation,
    forget_person,
    held_of,
    person_address,
    person_document,
)
from app.errors import ServiceError
from app.http.console.pages import form_texts, link, page, page_after
from app.http.console.searches import account_of_request, choose_account, named_account_id
from app.http.context import services
from blueprints.console.blueprint import blp


@blp.shows("/people", MANAGE)
def people(error: ServiceError | None = None, **_parts: str) -> Response:
    """Asks for the address of a person of an account, which is in no path and no query."""
    if error is not None and error.code == "not_found":
        raise error
    with services().database.read() as session:
        if named_account_id(session) is None:
            return choose_account(session, PATH, "Personal data")
        account = account_of_request(session)
    template_values = {"address": request.form.get("address", ""), "action": link(f"{PATH}/held")}
    return page_after(error, "people.html", account=account, **template_values)


@blp.takes("/people/held", MANAGE)
def held() -> Response:
    """Shows how much is held about a person, and what forgetting would remove and keep. Changes nothing."""
    return _person_page(_held)


@blp.takes("/people/forget", MANAGE)
def forget() -> Response:
    """Removes all that is held about a person, once the address was typed."""
    return _person_page(_forget)


@blp.takes("/people/export", MANAGE)
def export() -> Response:
    """Hands out all that is held about a person as a JSON file, made while it is sent."""
    return _person_page(_export)


def _person_page(act: Callable[[PersonAddress], Response]) -> Response:
    """What is done about the person of the form; an address that is none is asked for again."""
    try:
        with services().database.read() as session:
            person = person_address(session, account_of_request(session), form_texts("address")["address"])
    except ServiceError as error:
        return people(error)
    return act(person)


def _forget(person: PersonAddress) -> Response:
    try:
        check_confirmation(person, form_texts("confirmation")["confirmation"])
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


def _export(person: PersonAddress) -> Response:
    parts = person_document(services(), person)
    if parts is None:
        return _held(person)
    headers = {"Content-Disposition": 'attachment; filename="person.json"'}
    return Response(parts, content_type="application/json; charset=utf-8", headers=headers)


def _held(person: PersonAddress, error: ServiceError | None = None) -> Response:
    links = {"of_forget": link(f"{PATH}/forget"), "of_export": link(f"{PATH}/export"), "of_people": link(PATH)}
    counts = held_of(services(), person)
    return page_after(error, "person.html", person=person, held=counts, **links)
