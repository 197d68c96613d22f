"""The question before an action that cannot be undone (docs/console.md#questions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flask import Response, request

from app.http.console.pages import here, page

CONFIRMED = "confirmed"
"""The field of the form whose value 1 answers the question."""
CONFIRMATION = "confirmation"
"""The field in which a name is typed."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the title ends with a question mark, `facts` are sentences about what will stop working, `button`
    is a verb with its object, and `back` is the path to go to instead. `name` has to be typed where what is lost is
    large."""

    title: str
    facts: Sequence[str]
    button: str
    back: str
    name: str | None = None


Ask = Callable[..., Question | None]
"""Makes the question from a session of the database and the parts of the path; None if nothing is lost. Raises
`ServiceError`."""


def is_confirmed() -> bool:
    """Whether the form of the request answers the question."""
    return request.form.get(CONFIRMED) == "1"


def ask(question: Question) -> Response:
    """The page with the question, whose form sends the fields of the request once more."""
    sent = [pair for pair in request.form.items(multi=True) if pair[0] not in (CONFIRMED, CONFIRMATION)]
    return page("question.html", question=question, fields=[*sent, (CONFIRMED, "1")], action=here())
