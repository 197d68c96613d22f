"""Health checks and metrics for operators, which need no key (docs/health.md#probes)."""

from __future__ import annotations

from flask import Response, request
from flask.views import MethodView

from app.errors import ServiceError
from app.http.api import PUBLIC, Blueprint
from app.http.context import client_address, extension, services
from app.http.responses import json_response
from app.infrastructure.metric_kinds import CONTENT_TYPE
from app.maintenance.figures import FiguresReader, scrape
from app.maintenance.health import NEEDED_CHECKS, Readiness, failed_parts

blp = Blueprint("health", __name__, description="Health and metrics")


@blp.route("/healthz")
class Healthz(MethodView):
    """Liveness."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """200: the process answers."""
        return json_response({"status": "ok"})


@blp.route("/readyz")
class Readyz(MethodView):
    """Readiness."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """200 while requests can be accepted: the database takes a write, and its schema fits. `failed` names the
        failing parts; Redis alone causes 503 only if the query has `strict`."""
        parts = extension(Readiness).check()
        failed = failed_parts(parts)
        unavailable = bool(set(failed) & set(NEEDED_CHECKS)) or (bool(failed) and "strict" in request.args)
        status = "unavailable" if unavailable else "degraded" if failed else "ok"
        return json_response({"status": status, "failed": failed, **parts}, 503 if unavailable else 200)


@blp.route("/metrics", strict_slashes=True)  # a proxy that keeps it inside may compare whole paths
class Metrics(MethodView):
    """Prometheus."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """The metrics of this host's processes and of the installation; with METRICS_LOCAL_ONLY only for the loopback
        address."""
        if services().settings.metrics_local_only and not _is_local():
            raise ServiceError("not_found")
        return Response(scrape(services().settings, extension(FiguresReader)), content_type=CONTENT_TYPE)


def _is_local() -> bool:
    address = client_address()
    return address is not None and address.is_loopback
