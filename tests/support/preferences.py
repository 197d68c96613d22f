"""The preferences page as a person with a browser sees it, and what its forms send (docs/preferences.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser

from werkzeug.test import TestResponse

from app.services import Services
from app.tracking.tokens import PREFERENCES_PURPOSE, recipient_token

Field = tuple[str, str]


@dataclass
class PreferencesPage(HTMLParser):
    """A page that was read: its title, its lists with the state of each channel, and the fields of its form."""

    title: str = ""
    lists: dict[str, dict[str, str]] = field(default_factory=dict)
    """Name of a list -> value of a checkbox, such as `email-1` -> `on`, `off` or `stopped`."""
    fields: list[Field] = field(default_factory=list)
    """What the form sends if nothing is changed."""
    buttons: list[str] = field(default_factory=list)
    """Values of the buttons that switch all."""
    _text: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    @classmethod
    def of(cls, answer: TestResponse) -> PreferencesPage:
        """The page of an answer, which must be one."""
        assert (answer.status_code, answer.mimetype, answer.headers["Cache-Control"]) == (200, "text/html", "no-store")
        page = cls()
        page.feed(answer.text)
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name, value = given.get("name") or "", given.get("value") or ""
        self._text = ""
        if tag == "input":
            if given.get("type") == "checkbox":
                self.lists[next(reversed(self.lists))][value] = _state(given)
            if given.get("type") == "hidden" or "checked" in given:
                self.fields.append((name, value))
        elif tag == "button" and name == "all":
            self.buttons.append(value)

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "legend":
            self.lists[self._text] = {}
        elif tag == "title":
            self.title = self._text

    def changed(self, **states: bool) -> dict[str, list[str]]:
        """What the form sends once these boxes are ticked or cleared: `email_1=False`."""
        keys = {name.replace("_", "-"): is_on for name, is_on in states.items()}
        kept = [(name, value) for name, value in self.fields if name != "on" or value not in keys]
        return form_of([*kept, *(("on", value) for value, is_on in keys.items() if is_on)])


def _state(box: Mapping[str, str | None]) -> str:
    if "disabled" in box:
        return "stopped"
    return "on" if "checked" in box else "off"


def form_of(fields: list[Field]) -> dict[str, list[str]]:
    """The fields as the test client takes them."""
    form: dict[str, list[str]] = {}
    for name, value in fields:
        form.setdefault(name, []).append(value)
    return form


def preferences_path(services: Services, recipient_id: int) -> str:
    """The path of a recipient's link."""
    return f"/p/{recipient_token(services.settings.secret_key, PREFERENCES_PURPOSE, recipient_id)}"
