"""A database URL for people and logs."""

from __future__ import annotations

from sqlalchemy import make_url


def without_credentials(url: str) -> str:
    """The URL without user, password and options."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return f"sqlite:///{parsed.database}"
    hosts = [parsed.host] if parsed.host else _listed(parsed.query.get("host", "localhost"))
    ports = f":{parsed.port}" if parsed.port else ""
    return f"postgresql://{','.join(hosts)}{ports}/{parsed.database or ''}"


def _listed(value: str | tuple[str, ...]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
