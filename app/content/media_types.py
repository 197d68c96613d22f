"""Media types as clients write them, and as a mail has them. Pure."""

import re

_PART = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
_MEDIA_TYPE = re.compile(rf"({_PART}/{_PART})(?: *;([ -~]*))?")
_PARAMETER = re.compile(r' *([!#$&^_.+*A-Za-z0-9-]+) *= *(?:"((?:[^"\\]|\\.)*)"|([^ ;"]*)) *(?:;|$)')
_CHARSET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,39}")


def media_type(mime_type: str) -> str | None:
    """`type/subtype` in lower case without parameters; None for an invalid MIME type or a multipart container."""
    match = _media_type(mime_type)
    return match[1].lower() if match else None


def plain_type(mime_type: str) -> str | None:
    """The type as a mail has it: `type/subtype`, and of its parameters only the charset
    (docs/personalisation.md#attachment-rules). Others could contradict the service, such as a `name` that is not the
    attachment's. None as in `media_type`."""
    match = _media_type(mime_type)
    if match is None:
        return None
    charset = _charset(match[2] or "")
    return f"{match[1]}; charset={charset}" if charset else match[1]


def _media_type(mime_type: str) -> re.Match[str] | None:
    match = _MEDIA_TYPE.fullmatch(mime_type)
    return None if match is None or match[1].lower().startswith("multipart/") else match


def _charset(parameters: str) -> str | None:
    """The first charset; parameters after one that cannot be parsed are ignored."""
    position = 0
    while found := _PARAMETER.match(parameters, position):
        position = found.end()
        if found[1].lower() == "charset":
            value = found[2] if found[2] is not None else found[3]
            return value if _CHARSET.fullmatch(value) else None
    return None
