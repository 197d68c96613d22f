"""How a page tells of a change that was refused."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import CATALOGUE, ServiceError


def texts_of(error: ServiceError | None) -> Sequence[str]:
    """What a refusal says, if there is one."""
    return [] if error is None else [one.developer_message for one in error.errors]


def status_of(error: ServiceError | None) -> int:
    """The status of the page that tells of it."""
    return 200 if error is None else CATALOGUE[error.code].status
