"""The header of a submitted mail: which fields become attributes of the send, which stay as they are written, and which
are options of the service (docs/smtp-submission.md#header-fields). Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from email.message import Message
from typing import Any, NamedTuple

from app.addresses import is_valid_email
from app.content.limits import MAX_FROM_NAME_LENGTH, MAX_SUBJECT_LENGTH
from app.content.mail_headers import INSTRUCTIONS
from app.decoding import decode_words
from app.errors import ServiceError
from app.ids import id_in
from app.names import LONGEST_NAME
from app.recipients.labels import MAX_TAG_LENGTH, MAX_TAGS
from app.settings import SWITCHES
from app.transports.email.mime import mailboxes

OPTION_PREFIX = "x-tms-"
KEPT_FIELDS = {name.lower(): name for name in ("In-Reply-To", "References", "Auto-Submitted", "Importance")}
"""Fields besides `X-…` that leave with the mail."""
IDENTIFIER_FIELDS = ("in-reply-to", "references")
DROPPED_PREFIXES = (*INSTRUCTIONS, "x-received", "x-original-to", "x-envelope-", "x-resent-")
"""Fields by which relays or the service take instructions, and fields that mail servers add on the way."""
MAX_HEADERS = 100
MAX_HEADER_LENGTH = 4000
"""Characters of a field that is kept, besides those of addresses."""
MAX_MESSAGE_ID_LENGTH = 990
_LINE_ENDS = re.compile(r"[\r\n]+")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_FIELD_NAME = re.compile(r"[A-Za-z0-9-]{1,76}")
_MESSAGE_ID = re.compile(r"<[!-;=?-~]+>")


def refusal(detail: str, code: str = "validation_error", field: str | None = None) -> ServiceError:
    """Why a mail is not accepted."""
    return ServiceError(code, field=field, detail=detail)


class Header(NamedTuple):
    """What the header of a mail says. `options` are attributes of a send; `fields` leave as they are."""

    message_id: str
    subject: str | None
    from_name: str | None
    from_address: str
    reply_to: str | None
    fields: Mapping[str, str]
    options: Mapping[str, Any]


def read_header(message: Message) -> Header:
    """The header of a mail. Raises `ServiceError` for what it must not contain."""
    names = [name.lower() for name in message]
    from_name, from_address = _author(message)
    reply_to, written_reply_to = _reply_address(message)
    message_id = _message_id(message)
    return Header(
        message_id,
        _subject(message),
        from_name,
        from_address,
        reply_to,
        {**_recipients(message), **written_reply_to, **_kept_fields(message, message_id)},
        _options(message, [name for name in names if name.startswith(OPTION_PREFIX)]),
    )


def one_line(value: str) -> str:
    """A field without the line ends of its folding and without control characters."""
    return _CONTROLS.sub(" ", _LINE_ENDS.sub("", value)).strip()


def decoded(value: str) -> str:
    """The text of a field, with its encoded words (RFC 2047) decoded. What cannot be decoded stays as it is written."""
    return one_line(decode_words(one_line(value)))


def _values(message: Message, name: str) -> list[str]:
    return [one_line(str(value)) for value in message.get_all(name, [])]


def _subject(message: Message) -> str | None:
    subject = decoded(str(message.get("Subject", "")))
    if len(subject) > MAX_SUBJECT_LENGTH:
        detail = f"Subject has {len(subject)} characters; at most {MAX_SUBJECT_LENGTH} are accepted."
        raise refusal(detail, "too_long", "subject")
    return subject or None


def _author(message: Message) -> tuple[str | None, str]:
    """Name and address of the only address in `From`."""
    values = _values(message, "From")
    addressed = mailboxes(values)
    if len(values) != 1 or len(addressed) != 1 or not is_valid_email(addressed[0][1]):
        raise refusal("The mail needs one From field with one email address.", "invalid_from_address", "from_address")
    name = decoded(addressed[0][0])
    if len(name) > MAX_FROM_NAME_LENGTH:
        detail = f"The name in From has {len(name)} characters; at most {MAX_FROM_NAME_LENGTH} are accepted."
        raise refusal(detail, "too_long", "from_name")
    return name or None, addressed[0][1]


def _reply_address(message: Message) -> tuple[str | None, Mapping[str, str]]:
    """The address of `Reply-To`; where there are several, or one has a name, also the field as it is written."""
    values = _values(message, "Reply-To")
    addressed = mailboxes(values)
    if not "".join(values):
        return None, {}
    if not addressed or not all(is_valid_email(address) for _, address in addressed):
        raise refusal("Reply-To must have email addresses only.", "invalid_reply_to_address", "reply_to")
    is_plain = len(addressed) == 1 and not addressed[0][0]
    return addressed[0][1], {} if is_plain else {"Reply-To": ", ".join(values)}


def _recipients(message: Message) -> dict[str, str]:
    """`To` and `Cc` as they are written."""
    written = {name: ", ".join(filter(None, _values(message, name))) for name in ("To", "Cc")}
    return {name: value for name, value in written.items() if value}


def _message_id(message: Message) -> str:
    """The first Message-ID; empty for a mail that has none of the form of one."""
    written = next(iter(_values(message, "Message-ID")), "")
    return written if len(written) <= MAX_MESSAGE_ID_LENGTH and _MESSAGE_ID.fullmatch(written) else ""


def _kept_fields(message: Message, message_id: str) -> dict[str, str]:
    """Fields that leave as they are; those that occur several times as one, separated by commas. The mail gets a
    Message-ID of its own, so `References` ends with that of the application: threads and replies name it."""
    names: dict[str, str] = {}
    texts: dict[str, list[str]] = defaultdict(list)
    for name, value in message.items():
        key = name.lower()
        if key in KEPT_FIELDS or _is_kept(key):
            text = one_line(str(value)) if key in IDENTIFIER_FIELDS else decoded(str(value))
            if text:
                texts[names.setdefault(key, KEPT_FIELDS.get(key, name))].append(text)
    kept = {name: ", ".join(values) for name, values in texts.items()}
    if message_id or "References" in kept:
        kept["References"] = _references([*kept.get("References", "").split(), *filter(None, [message_id])])
    too_long = next((name for name, value in kept.items() if len(value) > MAX_HEADER_LENGTH), None)
    if too_long or len(kept) > MAX_HEADERS:
        what = f"The field {too_long} is too long" if too_long else "The mail has too many fields of its own"
        detail = f"{what}; at most {MAX_HEADERS} of {MAX_HEADER_LENGTH} characters are kept."
        raise refusal(detail, "too_long")
    return kept


def _references(ids: list[str]) -> str:
    """The first identifier, which names the thread, and as many of the last ones as there is room for."""
    first, *others = ids
    room, kept = MAX_HEADER_LENGTH - len(first), list[str]()
    for identifier in reversed(others):
        room -= len(identifier) + 1
        if room < 0:
            break
        kept.append(identifier)
    return " ".join([first, *reversed(kept)])


def _is_kept(key: str) -> bool:
    is_extension = key.startswith("x-") and not key.startswith(DROPPED_PREFIXES)
    return is_extension and _FIELD_NAME.fullmatch(key) is not None


# Options: what a request says by attributes.


def _switch(value: str) -> bool | None:
    return SWITCHES.get(value.lower())


def _name(value: str) -> str | None:
    return value if value and len(value) <= LONGEST_NAME else None


def _priority(value: str) -> str | None:
    return value if value in ("high", "normal") else None


def _tags(value: str) -> tuple[str, ...] | None:
    tags = tuple(tag.strip() for tag in value.split(","))
    are_valid = all(0 < len(tag) <= MAX_TAG_LENGTH and not tag.endswith("/") for tag in tags)
    return tags if are_valid and len(tags) == len({*tags}) <= MAX_TAGS else None


class Option(NamedTuple):
    """The attribute of a send that a field sets; `read` returns None for a value that is invalid."""

    attribute: str
    read: Callable[[str], Any]
    form: str


OPTIONS: dict[str, Option] = {
    "X-TMS-List": Option("list_id", id_in, "the id of a list"),
    "X-TMS-Group": Option("group_name", _name, f"a name of 1 to {LONGEST_NAME} characters"),
    "X-TMS-Tags": Option(
        "tags",
        _tags,
        f"up to {MAX_TAGS} tags of {MAX_TAG_LENGTH} characters, separated by commas, none with a slash at its end",
    ),
    "X-TMS-Track-Opens": Option("track_opens", _switch, "on or off"),
    "X-TMS-Track-Clicks": Option("track_clicks", _switch, "on or off"),
    "X-TMS-Include-Unsubscribed": Option("include_unsubscribed", _switch, "on or off"),
    "X-TMS-Priority": Option("priority", _priority, "high or normal"),
    "X-TMS-Transport": Option("transport", _name, f"a name of 1 to {LONGEST_NAME} characters"),
}
"""Name of a field -> what it sets. None of them leaves with the mail."""


def _options(message: Message, present: Iterable[str]) -> dict[str, Any]:
    """The attributes that the fields set. Raises `ServiceError` for a field that there is not, or a wrong value."""
    by_key = {name.lower(): name for name in OPTIONS}
    options: dict[str, Any] = {}
    for key in dict.fromkeys(present):
        if key not in by_key:
            detail = f"There is no field {key[:100]}; there are {', '.join(OPTIONS)}."
            raise refusal(detail, "unexpected_field")
        name, option = by_key[key], OPTIONS[by_key[key]]
        values = [decoded(value) for value in _values(message, name)]
        value = option.read(values[0]) if len(values) == 1 else None
        if value is None:
            detail = f"{name} must occur once and be {option.form}."
            raise refusal(detail, "invalid_string", option.attribute)
        options[option.attribute] = value
    return options
