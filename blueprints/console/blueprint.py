"""The blueprint of the console. Each module of this package adds its pages to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

from flask import Response

from app.errors import ServiceError
from app.http.api import Blueprint
from app.http.console.navigation import HOME
from app.http.console.notices import Done
from app.http.console.pages import redirect_after
from app.http.console.questions import Ask, Question, ask, is_confirmed
from app.http.console.searches import Search
from app.http.context import services

View = TypeVar("View", bound=Callable[..., Any])
Change = TypeVar("Change", bound=Callable[..., Done | Response])
RefusalPage = Callable[..., Response]
"""The page that tells of a refusal, from the error and the parts of the path."""


class ConsoleBlueprint(Blueprint):
    """A blueprint whose views are functions that get the parts of the path. Each view names the scopes of which whoever
    is signed in needs one."""

    def shows(self, path: str, *scopes: str) -> Callable[[View], View]:
        """Adds a page, or a file."""
        return self._adds("GET", path, scopes)

    def searches(self, search: Search, *scopes: str, page: Callable[..., Response] | None = None) -> None:
        """Adds the page of a search, unless there is another for it, and its file."""
        path = search.path.removeprefix(HOME)
        self.shows(path, *scopes)(page or partial(search.page))
        self.shows(f"{path}.csv", *scopes)(partial(search.file))

    def takes(self, path: str, *scopes: str) -> Callable[[View], View]:
        """Adds a view that takes a form, in transactions of its own."""
        return self._adds("POST", path, scopes)

    def changes(
        self, path: str, *scopes: str, refused: RefusalPage | None = None, asks: Ask | None = None
    ) -> Callable[[Change], Change]:
        """Adds a view that takes a form in a transaction, which it gets. It returns what it has done, which the next
        page says, or a page that says so itself. `refused` answers what was refused in place of the page of errors;
        what was not found and what is not permitted have that page always. `asks` makes the question that has to be
        answered first; None if nothing is lost."""

        def add(view: Change) -> Change:
            @wraps(view)
            def run(**parts: str) -> Response:
                try:
                    question = _question(asks, parts)
                    if question is not None:
                        return ask(question)
                    with services().database.write() as transaction:
                        answer = view(transaction, **parts)
                except ServiceError as error:
                    if refused is None or error.code in ("not_found", "permission_denied"):
                        raise
                    return refused(error, **parts)
                return redirect_after(answer) if isinstance(answer, Done) else answer

            self._adds("POST", path, scopes)(run)
            return view

        return add

    def _adds(self, method: str, path: str, scopes: tuple[str, ...]) -> Callable[[View], View]:
        def add(view: View) -> View:
            endpoint = f"{method} {path}".replace(".", "_")
            self.route(path, methods=[method], endpoint=endpoint)(self.scope(*scopes)(view))
            return view

        return add


def _question(asks: Ask | None, parts: Mapping[str, str]) -> Question | None:
    """What is still to be answered before the view may run."""
    if asks is None or is_confirmed():
        return None
    with services().database.read() as session:
        return asks(session, **parts)


blp = ConsoleBlueprint("console", __package__, url_prefix=HOME, description="Console")
"""`/console`: pages for people, rendered by the server (docs/console.md)."""
