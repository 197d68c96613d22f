"""Files that go with a mail."""

from __future__ import annotations

import base64
import mimetypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

ANY_TYPE = "application/octet-stream"
TYPES = mimetypes.MimeTypes()
"""The table of the standard library, without the files of the system, so that a type is the same everywhere."""


@dataclass(frozen=True)
class Attachment:
    """A file: its name, its bytes and its MIME type."""

    name: str
    content: bytes = field(repr=False)
    type: str

    @classmethod
    def from_bytes(cls, content: bytes, name: str, type: str | None = None) -> Self:
        """The bytes under this name; the type follows from the name if it is not given."""
        return cls(name, bytes(content), type or TYPES.guess_type(name)[0] or ANY_TYPE)

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], name: str | None = None, type: str | None = None) -> Self:
        """The file at the path, read now."""
        return cls.from_bytes(Path(path).read_bytes(), name or Path(path).name, type)

    @classmethod
    def from_file(cls, file: IO[bytes], name: str | None = None, type: str | None = None) -> Self:
        """What is left to read of a file that was opened in binary mode. A file without a name of its own needs one."""
        known = getattr(file, "name", None)
        found = name or (Path(known).name if isinstance(known, str) else None)
        if found is None:
            raise ValueError("The file has no name: give one, as in Attachment.from_file(file, 'invoice.pdf').")
        content: object = file.read()
        if not isinstance(content, bytes):
            raise TypeError(f"{found}: open the file in binary mode, with 'rb'.")
        return cls.from_bytes(content, found, type)

    def to_json(self) -> dict[str, str]:
        """The attachment as the API takes it."""
        return {"type": self.type, "name": self.name, "content": base64.b64encode(self.content).decode("ascii")}


AttachmentSource = Attachment | os.PathLike[str] | IO[bytes] | Mapping[str, Any]
"""What `attachments` takes: also a path (`pathlib.Path`), a file opened in binary mode, or the JSON of the API. A text
is not taken for a path, since it may come from a stranger."""


def attachment_json(source: AttachmentSource) -> Mapping[str, Any]:
    """The JSON of an attachment."""
    if isinstance(source, Attachment):
        return source.to_json()
    if isinstance(source, Mapping):
        return source
    if isinstance(source, os.PathLike):
        return Attachment.from_path(source).to_json()
    if hasattr(source, "read"):
        return Attachment.from_file(source).to_json()
    raise TypeError(f"{source!r} is no attachment: give an Attachment, a pathlib.Path or a file opened with 'rb'.")
