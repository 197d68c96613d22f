"""Calls of operations with the generated Python client: each is noted, and its response compared."""

from __future__ import annotations

from typing import Any, TypeVar

from tms_client import AuthenticatedClient
from tms_client.types import Response

T = TypeVar("T")


class Calls:
    """Calls operations and notes which."""

    def __init__(self, client: AuthenticatedClient) -> None:
        self.client = client
        self.called: set[str] = set()

    def parsed(self, operation: str, response: Response[Any], expected: type[T], status: int = 200) -> T:
        """The parsed body of a response with this status."""
        self.called.add(operation)
        assert response.status_code == status, (operation, response.content)
        assert isinstance(response.parsed, expected), (operation, response.parsed)
        return response.parsed

    def empty(self, operation: str, response: Response[Any]) -> None:
        """A response without a body."""
        self.called.add(operation)
        assert (response.status_code, response.content) == (204, b""), (operation, response.content)
