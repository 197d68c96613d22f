"""The navigation of the console: seven areas with their pages, of which a browser gets those that it may see
(docs/console.md#finding-your-way)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from flask import render_template
from markupsafe import Markup

from app.accounts.auth import MANAGE
from app.accounts.sessions import OPERATOR

HOME = "/console"


class Page(NamedTuple):
    """A page of the navigation. `key` is the key behind `g` that leads to it. `also` are the paths of other pages on
    which it counts as the current one."""

    path: str
    key: str
    label: str
    scope: str
    also: tuple[str, ...] = ()


class Area(NamedTuple):
    """Pages about one subject; the first leads there."""

    label: str
    pages: Sequence[Page]


OVERVIEW = Page(HOME, "o", "Overview", "report.view")
AREAS = (
    Area(
        "Messages",
        (
            Page("/console/messages", "m", "Messages", "report.view"),
            Page("/console/groups", "r", "Groups", "report.view"),
            Page("/console/bulk-actions", "b", "Bulk actions", "contact.view"),
            Page("/console/inbox", "i", "Inbox", "contact.view"),
        ),
    ),
    Area(
        "People",
        (
            Page("/console/lists", "l", "Lists", "list.view"),
            Page("/console/suppressions", "s", "Suppressions", "contact.view"),
            Page("/console/people", "p", "Personal data", MANAGE),
        ),
    ),
    Area("Content", (Page("/console/stored-messages", "t", "Stored messages", "message.view"),)),
    Area("Automations", (Page("/console/automations", "u", "Automations", "report.view"),)),
    Area(
        "Developers",
        (
            Page("/console/webhooks", "w", "Webhooks", "report.view"),
            Page("/console/keys", "k", "Keys", MANAGE),
        ),
    ),
    Area(
        "Sending",
        (
            Page("/console/queues", "q", "Queue", "contact.view", also=("/console/holds",)),
            Page("/console/domains", "d", "Domains", "contact.view"),
        ),
    ),
    Area(
        "Settings",
        (
            Page("/console/accounts", "c", "Accounts", OPERATOR),
            Page("/console/audit", "a", "Audit log", OPERATOR),
        ),
    ),
)


class Navigation(NamedTuple):
    """What a page shows of the navigation: the areas with their pages, and the keys that lead to them."""

    bar: Markup
    keys: Markup


def navigation_at(path: str, scopes: tuple[str, ...], account_id: int | None) -> Navigation:
    """The navigation on the page with this path, for somebody with these scopes who has chosen that account."""
    page = current_page(path)
    return _navigation(page, page is not None and page.path == path, scopes, account_id)


@lru_cache(maxsize=256)
def _navigation(current: Page | None, is_open: bool, scopes: tuple[str, ...], account_id: int | None) -> Navigation:
    """Rendered once for all pages that look the same: it would take a third of the time of a page."""
    visible = (Area(area.label, [page for page in area.pages if page.scope in scopes]) for area in AREAS)
    areas = [area for area in visible if area.pages]
    query = "" if account_id is None else f"?account={account_id}"
    bar = render_template("console/navigation.html", areas=areas, current=current, is_open=is_open, query=query)
    return Navigation(Markup(bar), Markup(render_template("console/keys_of_pages.html", areas=areas)))  # noqa: S704


def current_page(path: str) -> Page | None:
    """The page of the navigation that a path belongs to: the page itself, one below it, or one of `also`."""
    if path == HOME:
        return OVERVIEW
    pages = (page for area in AREAS for page in area.pages)
    return next((page for page in pages if _is_within(path, (page.path, *page.also))), None)


def may_open(path: str, scopes: Collection[str]) -> bool:
    """Whether somebody with these scopes may open the page of the navigation that the path belongs to."""
    page = current_page(path)
    return page is not None and page.scope in scopes


def _is_within(path: str, parents: Sequence[str]) -> bool:
    return any(path == parent or path.startswith(f"{parent}/") for parent in parents)
