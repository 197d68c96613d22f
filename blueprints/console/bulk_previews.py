"""Previewing a bulk action and asking for it, whatever it does (docs/console.md#bulk-actions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flask import Response, request

from app.bulk_actions.ask import GRACE, ask
from app.bulk_actions.kinds import WORDS, Kind
from app.bulk_actions.preview import VALID, Numbers, check_shown, preview
from app.bulk_actions.query import query_of
from app.console.bulk_actions import NAMES, PATH
from app.console.queries import Pairs
from app.errors import ServiceError
from app.http.collections import query_pairs
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.searches import account_of_request, choose_account, link, named_account_id
from app.http.context import services
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction


@dataclass(frozen=True, slots=True)
class BulkPreview:
    """A page that shows what a query finds, and offers these kinds of actions on all of it. `path` takes the form, and
    `search` is the page whose query it is."""

    template: str
    kinds: Mapping[str, Kind]
    path: str
    search: str
    title: str

    def shown(self) -> Response:
        """The page of the query of the request."""
        return self._page([one for one in query_pairs() if one[0] != "account"], None)

    def asked(self) -> Response:
        """Asks for the action of the form, and leads to its page; or tells why that is refused."""
        pairs, kind = query_of(request.form.get("query", "")), self.kinds.get(request.form.get("action", ""))
        try:
            if kind is None:
                raise ServiceError("invalid_string", field="action", detail="Say what becomes of them.")
            with services().database.read() as session:
                found = preview(session, kind, account_of_request(session), pairs)
            check_shown(Numbers.of(request.form.get("shown", "")), found)
            with services().database.write() as transaction:
                action = ask(transaction, account_of_request(transaction), found)
        except ServiceError as error:
            return self._page(pairs, error)
        return goes_to(link(f"{PATH}/{action.id}"))

    def _page(self, pairs: Pairs, error: ServiceError | None) -> Response:
        """What the query finds now, with why asking for it was refused. All kinds of a page find the same."""
        found = None
        with services().database.read() as session:
            if named_account_id(session) is None:
                return choose_account(session, self.search, self.title)
            account = account_of_request(session)
            try:
                found = preview(session, next(iter(self.kinds.values())), account, pairs)
            except ServiceError as refused:
                error = refused
            return page(
                self.template,
                status_of(error),
                account=account,
                found=found,
                refused=texts_of(error),
                viewer=Viewer("contact.view" in signed_in().scopes, Redaction.of(services().settings)),
                kinds=[(NAMES[name], found.of(kind)) for name, kind in self.kinds.items()] if found else [],
                words=WORDS,
                seconds=int(GRACE.total_seconds()),
                valid=int(VALID.total_seconds()),
                action=link(self.path),
                back=link(self.search, pairs),
            )
