"""What requests do not pay for: looking for coroutines, and gunicorn's settings by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gunicorn.config import Config

from app.application import Application
from app.http.server.request import read_once


class Converting(Application):
    """Marks what Flask would convert."""

    def async_to_sync(self, func: Callable[..., Any]) -> Any:
        return func, "converted"


class Views:
    def view(self) -> None:
        pass


async def waits() -> None:
    pass


def test_only_coroutines_are_converted() -> None:
    app: Any = Converting("app")
    view = Views().view
    assert app.ensure_sync(view) is view
    assert app.ensure_sync(len) is len
    assert app.ensure_sync(waits) == (waits, "converted")


def test_settings_of_the_server_are_read_once() -> None:
    cfg = Config()
    cfg.set("threads", 7)
    before = cfg.is_ssl, cfg.threads, cfg.forwarded_allow_ips
    assert "threads" not in vars(cfg)
    read_once(cfg)
    assert vars(cfg)["threads"] == 7
    assert (cfg.is_ssl, cfg.threads, cfg.forwarded_allow_ips) == before
