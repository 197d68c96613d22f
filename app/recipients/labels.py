"""Labels of recipients: the tags and the metadata by which an application finds its messages again
(docs/tags.md). Pure.

Each tag, and each entry of the metadata, is a label, under which `RecipientLabel` has a row. The label of a tag has its
text. That of an entry has a digest of key and value, so that it is short, and does not show the value.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence

MAX_TAGS = 5
MAX_TAG_LENGTH = 50
MAX_METADATA_ENTRIES = 20
MAX_METADATA_VALUE_LENGTH = 500
MAX_METADATA_KEY_LENGTH = 50
METADATA_KEY = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_METADATA_KEY_LENGTH}}}")
METADATA = "metadata"
"""The attribute, and the first part of the filter of an entry: `metadata.order_number`."""
METADATA_LABELS = f"{METADATA}:"
"""What the labels of metadata begin with, and those of tags do not."""
DIGEST_BYTES = 16


def tag_label(tag: str) -> str:
    """The label of a tag."""
    return f"tag:{tag}"


def metadata_label(key: str, value: str) -> str:
    """The label of an entry of the metadata. A key has no equals sign, so each entry has a text of its own."""
    digest = hashlib.blake2b(f"{key}={value}".encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES)
    return f"{METADATA_LABELS}{digest.hexdigest()}"


def labels(tags: Sequence[str] | None, metadata: Mapping[str, str] | None) -> Iterator[str]:
    """The labels of a recipient."""
    yield from map(tag_label, tags or ())
    for key, value in (metadata or {}).items():
        yield metadata_label(key, value)
