"""Relay hooks: requests by which relays report bounces, complaints and deliveries (docs/relay-hooks.md).

They need no key: each hook checks by itself that a request is genuine. One that is not, and one of a hook that is not
configured, is `not_found`.
"""

from __future__ import annotations

import logging

from flask import Response, current_app, request
from flask.views import MethodView

from app.errors import ServiceError
from app.http.api import PUBLIC, Blueprint
from app.http.bodies import check_encoding, json_value
from app.http.context import services
from app.inbound.hooks.base import HookBusy, HookRefused, HookRequest, RelayHook
from app.inbound.hooks.registry import RELAY_HOOKS
from app.inbound.hooks.take import take_relay_events

logger = logging.getLogger(__name__)

blp = Blueprint("relay_hooks", __name__, url_prefix="/inbound", description="Events that relays report")

MAX_BYTES = 16 * 1024 * 1024
"""Bytes of one request."""
RETRY_AFTER = 30


@blp.route("/<name>")
class RelayHookWithoutSecret(MethodView):
    """The hook of a relay that signs its requests, or sends its secret in a header."""

    @blp.scope(PUBLIC)
    def post(self, name: str) -> Response:
        """Records the events; repetitions change nothing. 503 makes the relay retry."""
        return _take(name, "")


@blp.route("/<name>/<secret>")
class RelayHookWithSecret(MethodView):
    """The hook of a relay that repeats its secret in the path."""

    @blp.scope(PUBLIC)
    def post(self, name: str, secret: str) -> Response:
        """Records the events; repetitions change nothing. 503 makes the relay retry."""
        return _take(name, secret)


def _take(name: str, secret: str) -> Response:
    hooks: dict[str, RelayHook] = current_app.extensions[RELAY_HOOKS]
    hook = hooks.get(name)
    if hook is None:
        raise ServiceError("not_found")
    request.max_content_length = min(MAX_BYTES, services().settings.max_request_bytes)
    check_encoding()
    headers = {header.lower(): value for header, value in request.headers.items()}
    try:
        events = hook.read(HookRequest(secret, headers, request.get_data(), json_value))
    except HookRefused as error:
        logger.warning("a request to the hook of %s was refused: %s", name, error)
        raise ServiceError("not_found") from None
    except HookBusy as error:
        logger.warning("a request to the hook of %s must be repeated: %s", name, error)
        raise ServiceError("service_unavailable", retry_after=RETRY_AFTER) from None
    if not take_relay_events(services(), events):
        raise ServiceError("service_unavailable", retry_after=RETRY_AFTER)
    return Response(status=hook.success)
