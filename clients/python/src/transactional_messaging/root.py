"""The root of the API: what the key may do."""

from __future__ import annotations

from transactional_messaging.part import Part
from transactional_messaging.resource import OptionalTime, Property, Resource, Time


class KeyScopes(Resource):
    """The scopes of the key."""

    access_token_scope = Property[str]()
    access_token_creation_time = Time()
    access_token_expiry_time = OptionalTime()

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes one by one, such as `send.email`."""
        return frozenset(self.access_token_scope.split(","))


class Root(Part):
    """`/v1`"""

    def get(self) -> KeyScopes:
        """The scopes of the key. Raises `AuthenticationFailed` if it is not valid."""
        return KeyScopes(self._caller.get("/"))
