"""The rules for names, types and contents of attachments (docs/sending.md#attachments)."""

import base64
import mimetypes
import re
import secrets
from collections.abc import Mapping
from unicodedata import category

# Media types as clients write them, and as a mail has them. Pure.

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
    (docs/sending.md#attachments). Others could contradict the service, such as a `name` that is not the
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
    while parameter := _PARAMETER.match(parameters, position):
        position = parameter.end()
        if parameter[1].lower() == "charset":
            value = parameter[2] if parameter[2] is not None else parameter[3]
            return value if _CHARSET.fullmatch(value) else None
    return None


MAX_NAME_LENGTH = 255
_PUNCTUATION = frozenset(" ._()-")
_LETTERS_AND_DIGITS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd"})
"""Categories of Unicode. A letter may have marks, which many scripts cannot be written without."""

# Without the files of the system, so that the accepted types do not depend on the machine.
_TABLES = mimetypes.MimeTypes(filenames=())

# Common types that those tables lack, and further extensions of types they have. A type is listed so that a wrong
# extension is detected.
_FURTHER_EXTENSIONS: Mapping[str, tuple[str, ...]] = {
    "application/gzip": (".gz", ".tgz"),
    "application/pgp-signature": (".asc", ".sig"),
    "application/pkcs7-mime": (".p7m",),
    "application/pkcs7-signature": (".p7s",),
    "application/vnd.apple.pkpass": (".pkpass",),
    "application/vnd.ms-excel": (".xla", ".xlt"),
    "application/vnd.ms-outlook": (".msg",),
    "application/vnd.oasis.opendocument.presentation": (".odp",),
    "application/vnd.oasis.opendocument.spreadsheet": (".ods",),
    "application/vnd.oasis.opendocument.text": (".odt",),
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": (".pptx",),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": (".xlsx",),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": (".docx",),
    "application/vnd.rar": (".rar",),
    "application/x-7z-compressed": (".7z",),
    "application/x-gzip": (".gz", ".tgz"),
    "application/x-javascript": (".js",),
    "application/x-pdf": (".pdf",),
    "application/x-rar-compressed": (".rar",),
    "application/x-zip-compressed": (".zip",),
    "application/xml": (".xml", ".xsd"),
    "application/yaml": (".yaml", ".yml"),
    "audio/midi": (".rmi",),
    "audio/mp3": (".mp3",),
    "audio/mp4": (".m4a", ".mp4"),
    "audio/ogg": (".oga", ".ogg", ".opus"),
    "audio/wav": (".wav",),
    "image/jpeg": (".jfif",),
    "image/jpg": (".jpeg", ".jpe", ".jfif"),
    "image/pjpeg": (".jpg", ".jpeg"),
    "image/x-icon": (".ico",),
    "image/x-png": (".png",),
    "text/calendar": (".ics", ".ifb"),
    "text/javascript": (".js", ".mjs"),
    "text/markdown": (".md", ".markdown"),
    "text/plain": (".asc", ".cfg", ".conf", ".ini", ".log", ".md", ".text"),
    "text/rtf": (".rtf",),
    "text/vcard": (".vcf", ".vcard"),
    "text/xml": (".rss", ".xsd", ".xsl"),
    "text/yaml": (".yaml", ".yml"),
    "video/mp4": (".m4v",),
    "video/ogg": (".ogv",),
}


def is_valid_name(name: str) -> bool:
    """Letters and digits of any script, space and `. _ - ( )`, 1 to 255 characters, no leading dot."""
    if not 1 <= len(name) <= MAX_NAME_LENGTH or name.startswith("."):
        return False
    return all(character in _PUNCTUATION or category(character) in _LETTERS_AND_DIGITS for character in name)


def extension_fits(mime_type: str, name: str) -> bool:
    """Whether the MIME type allows the extension of the name, in any case.

    `application/octet-stream` and unknown types, which may be private or new, allow any. A known type allows only its
    own extensions, so a name without one does not fit. An invalid MIME type allows none.
    """
    type_name = media_type(mime_type)
    if type_name is None:
        return False
    allowed = {*_TABLES.guess_all_extensions(type_name, strict=False), *_FURTHER_EXTENSIONS.get(type_name, ())}
    if type_name == "application/octet-stream" or not allowed:
        return True
    _, dot, extension = name.rpartition(".")
    return dot + extension.lower() in allowed


def decode_strict(content: str) -> bytes:
    """Decodes base64 with the standard alphabet, padding and no line breaks. Raises ValueError for anything else."""
    return base64.b64decode(content, validate=True)


def new_content_id() -> str:
    """A new id of the form `content_<generated id>` for one attachment of one send."""
    return f"content_{secrets.token_hex(16)}"


def common_extension(mime_type: str) -> str:
    """The usual extension of a type, for a file without a name; `.bin` for a type that has none."""
    return _TABLES.guess_extension(mime_type, strict=False) or next(
        iter(_FURTHER_EXTENSIONS.get(mime_type.lower(), (".bin",)))
    )
