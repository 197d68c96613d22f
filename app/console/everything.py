"""The search of everything that an account has, by a part of its name (docs/console.md#searching)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, literal, select, union_all
from sqlalchemy.orm import Session

from app.accounts.auth import MANAGE
from app.addresses import ADDRESS_KINDS, normalize_address
from app.audit.values import host_of
from app.console.automations import path_of_automation
from app.console.domains import PATH as DOMAINS_PATH
from app.console.groups import path_of_group
from app.console.keys import PATH as KEYS_PATH
from app.console.lists import PATH as LISTS_PATH
from app.console.message_search import text_filter
from app.console.stored_messages import PATH as STORED_MESSAGES_PATH
from app.console.webhooks import PATH as WEBHOOKS_PATH
from app.contacts.subscriptions import ADDRESS_COLUMNS
from app.db.expressions import has_part
from app.db.models import ApiKey, Automation, Contact, Domain, Group, List, Message, SmsSender, Webhook
from app.ids import shown_id

MAX_SEARCHED = 5000
"""Rows of a noun among which a name is looked for: the newest ones."""
MAX_NAMES = 5
"""Names of a noun that are shown."""
MAX_CONTACTS = 20


class SearchedNoun(NamedTuple):
    """What is searched by its name: the noun, the scope that sees it, the column of its name, the path of the page of
    the one with an id, and what is shown of the name."""

    noun: str
    scope: str
    name: Any
    path: Callable[[int], str]
    shown_name: Callable[[str], str | None] = str


class Match(NamedTuple):
    """Something with the text in its name, and the path of its page."""

    noun: str
    name: str
    path: str


SEARCHED_NOUNS = (
    SearchedNoun("group", "report.view", Group.name, path_of_group),
    SearchedNoun("stored message", "message.view", Message.name, lambda id_: f"{STORED_MESSAGES_PATH}/{shown_id(id_)}"),
    SearchedNoun("list", "contact.view", List.name, lambda id_: f"{LISTS_PATH}/{shown_id(id_)}"),
    SearchedNoun("automation", "report.view", Automation.name, path_of_automation),
    SearchedNoun("webhook", "contact.view", Webhook.url, lambda id_: f"{WEBHOOKS_PATH}/{id_}", host_of),
    SearchedNoun("domain", "contact.view", Domain.name, lambda id_: f"{DOMAINS_PATH}/{id_}"),
    SearchedNoun("sender", "contact.view", SmsSender.address, lambda _: DOMAINS_PATH),
    SearchedNoun("key", MANAGE, ApiKey.name, lambda _: KEYS_PATH),
)


def find_by_name(session: Session, account_id: int, text: str, scopes: Collection[str]) -> list[Match]:
    """What the account has with the text in its name, in any case, as far as somebody with these scopes may see it: one
    statement."""
    nouns = [searched for searched in SEARCHED_NOUNS if searched.scope in scopes]
    selects = [_with_text(searched, account_id, text) for searched in nouns]
    if not selects:
        return []
    searched_by_noun = {searched.noun: searched for searched in nouns}
    matches = []
    for noun, row_id, stored_name in session.execute(union_all(*selects)):
        name = searched_by_noun[noun].shown_name(stored_name) or ""
        if text.casefold() in name.casefold():  # the path of a URL may have a secret, which is found by nobody
            matches.append(Match(noun, name, searched_by_noun[noun].path(row_id)))
    return matches


def _with_text(searched: SearchedNoun, account_id: int, text: str) -> Select[Any]:
    model = searched.name.class_
    columns = select(model.id, searched.name.label("name")).where(model.account_id == account_id)
    newest = columns.order_by(model.creation_time.desc(), model.id.desc()).limit(MAX_SEARCHED).subquery()
    matches = select(newest.c.id, newest.c.name).where(has_part(newest.c.name, text))
    first = matches.order_by(newest.c.name).limit(MAX_NAMES).subquery()
    return select(literal(searched.noun).label("noun"), first.c.id, first.c.name)


def find_contacts(session: Session, account_id: int, text: str) -> list[Match]:
    """The contacts of the account that have the text as their whole address, by the names of their lists."""
    kind, value = text_filter(text)
    if kind not in ADDRESS_KINDS:
        return []
    address = normalize_address(kind, value)
    contacts = (
        select(Contact.id, List.id.label("list_id"), List.name)
        .join(List, List.id == Contact.list_id)
        .where(Contact.account_id == account_id, ADDRESS_COLUMNS[address.kind] == address.key)
        .order_by(Contact.id.desc())
        .limit(MAX_CONTACTS)
    )
    return [
        Match(
            "contact",
            f"{value} in {row.name or 'an unnamed list'}",
            f"{LISTS_PATH}/{shown_id(row.list_id)}/contacts/{row.id}",
        )
        for row in session.execute(contacts)
    ]


def searches_for(text: str, scopes: Collection[str]) -> Sequence[tuple[str, str, tuple[str, str]]]:
    """The searches of other pages that the text is meant for: what each finds, its path, and its filter."""
    name, value = text_filter(text)
    searches = [(f"Messages with “{text}”", "/console/messages", (name, value))]
    if name in ADDRESS_KINDS and "contact.view" in scopes:
        searches.append((f"Suppressions of {text}", "/console/suppressions", (name, value)))
    return searches
