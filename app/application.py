"""The WSGI application: assembles a process of the API or of the command line."""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_COROUTINE
from typing import Any

from flask import Flask

from app import cli
from app.accounts.auth import KeyUses
from app.accounts.rate_limit import Portions
from app.contacts.request_path import find_of_path
from app.http import api, errors, guards, html_pages, openapi, plugins
from app.http.context import EXTENSION, extension_name
from app.http.paths import InstanceConverter
from app.http.proxies import behind_proxies
from app.inbound.hooks.registry import RELAY_HOOKS, relay_hooks
from app.infrastructure import logs
from app.maintenance.figures import FiguresReader
from app.maintenance.health import Readiness
from app.services import make_services
from app.settings import Settings, from_environment
from app.tracking.recorder import VISITS, Recorder


class Application(Flask):
    """Flask, which looks for `async def` here without unwrapping each function six times in a request."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Flask's hook."""
        code = getattr(func, "__code__", None)
        return super().ensure_sync(func) if code is None or code.co_flags & CO_COROUTINE else func


def create_app(settings: Settings | None = None) -> Flask:
    """The WSGI application of these settings, by default those of the environment."""
    settings = settings or from_environment()
    logs.configure(settings)
    app = assemble()
    configure(app, settings)
    return app


def assemble() -> Flask:
    """An application with its routes and commands, which serves nothing yet: it has no settings."""
    app = Application(__package__, static_folder=None)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.url_map.converters["instance"] = InstanceConverter
    smorest = openapi.make_api(app)
    for blueprint in plugins.discover():
        smorest.register_blueprint(blueprint)
    errors.register(app)
    html_pages.register(app)
    guards.register(app, find_of_path)
    cli.register(app)
    api.check_declarations(app)
    return app


def configure(app: Flask, settings: Settings) -> None:
    """Gives an application its settings, and the services that these describe."""
    app.config["MAX_CONTENT_LENGTH"] = settings.max_request_bytes
    if settings.trusted_proxies:
        app.wsgi_app = behind_proxies(app.wsgi_app, settings.trusted_proxies)  # type: ignore[method-assign]
    app.extensions[RELAY_HOOKS] = relay_hooks(settings)
    services = make_services(settings)
    app.extensions[EXTENSION] = services
    app.extensions[VISITS] = Recorder(services.database)
    for extension in (FiguresReader(services), Readiness(services), KeyUses(services.database), Portions()):
        app.extensions[extension_name(type(extension))] = extension
