"""Resources as the service answers them: documented properties as typed attributes, all of them as items.

    contact.email             # a str or None
    contact.creation_time     # a datetime
    contact["first_name"]     # a list field
    contact["creation_time"]  # the text of the answer

So properties that a newer service adds are readable without a newer library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, overload

T = TypeVar("T")


class Resource(Mapping[str, Any]):
    """The JSON of a resource. It compares equal to a dict with the same content."""

    __slots__ = ("_json",)
    absent_is_none: ClassVar[bool] = False
    """Whether a property that the JSON lacks reads as None."""

    def __init__(self, json: Mapping[str, Any]) -> None:
        self._json = json

    def __getitem__(self, name: str) -> Any:
        return self._json[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._json)

    def __len__(self) -> int:
        return len(self._json)

    def __repr__(self) -> str:
        """Without addresses and texts, which do not belong in logs."""
        name = next((f" {name}={self[name]!r}" for name in ("uuid", "id") if name in self), "")
        return f"<{type(self).__name__}{name}>"

    def link(self, name: str) -> str | None:
        """The path of a related resource; None if there is none."""
        found: Mapping[str, str] = self.get("_links", {}).get(name, {})
        return found.get("href")


class Property(Generic[T]):
    """A property of a resource as an attribute."""

    __slots__ = ("_name",)

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...

    @overload
    def __get__(self, resource: Resource, owner: type) -> T: ...

    def __get__(self, resource: Resource | None, owner: type) -> Self | T:
        if resource is None:
            return self
        if self._name not in resource:
            if not resource.absent_is_none:
                raise AttributeError(f"The answer has no {self._name}; did `fields` leave it out?")
            return cast(T, None)
        return self.read(resource[self._name])

    def __set__(self, resource: Resource, value: object) -> None:
        raise AttributeError(f"{self._name} is read-only: change it by a request.")

    def read(self, value: Any) -> T:
        """The value of the JSON as that of the attribute."""
        return cast(T, value)


class Time(Property[datetime]):
    """A time of the API as a datetime with its zone."""

    def read(self, value: str) -> datetime:
        return datetime.fromisoformat(value)


class OptionalTime(Property[datetime | None]):
    """A time, or None."""

    def read(self, value: str | None) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


R = TypeVar("R", bound=Resource)


class Nested(Property[R]):
    """A resource inside of another."""

    __slots__ = ("_kind",)

    def __init__(self, kind: type[R]) -> None:
        super().__init__()
        self._kind = kind

    def read(self, value: Mapping[str, Any]) -> R:
        return self._kind(value)


class NestedList(Property[list[R]]):
    """An array of resources inside of another."""

    __slots__ = ("_kind",)

    def __init__(self, kind: type[R]) -> None:
        super().__init__()
        self._kind = kind

    def read(self, value: list[Mapping[str, Any]]) -> list[R]:
        return [self._kind(one) for one in value]


def embedded(resource: Resource, name: str, kind: type[R]) -> R | None:
    """What `expand` added to a resource; None without it."""
    found = (resource.get("_embedded") or {}).get(name)
    return None if found is None else kind(found)
