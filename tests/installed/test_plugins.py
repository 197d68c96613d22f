"""A package that depends on the service by its name adds a blueprint, a transport and a relay hook to it
(docs/plugins.md)."""

from __future__ import annotations

from pathlib import Path

import requests

from tests.support.installed import InstalledPackage, build
from tests.support.launched import TOKEN
from tests.support.servers import PATIENCE, wait_until

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tms-pigeons"
version = "1.0"
dependencies = ["transactional-messaging-service>=1"]

[project.entry-points."tms.blueprints"]
pigeons = "tms_pigeons"

[project.entry-points."tms.transports"]
pigeon = "tms_pigeons:Pigeon"

[project.entry-points."tms.relay_hooks"]
pigeons = "tms_pigeons:Hook"

[tool.hatch.build.targets.wheel]
only-include = ["tms_pigeons.py"]
"""
MODULE = """\
from pathlib import Path

from flask.views import MethodView

from app.http.api import Blueprint
from app.http.responses import json_response
from app.inbound.hooks.base import check_secret
from app.transports.base import DeliveryResult

blp = Blueprint("pigeons", __name__, url_prefix="/v1/pigeons", description="Pigeons")


@blp.route("")
class Pigeons(MethodView):
    @blp.scope("message.view")
    def get(self):
        return json_response({"pigeons": 2})


class Pigeon:
    def __init__(self, url):
        self.loft = Path(url.removeprefix("pigeon://"))

    def connect(self):
        return self

    def send(self, message):
        (self.loft / message.to).write_bytes(message.content)
        return DeliveryResult.accepted("flown")

    def close(self):
        pass


class Hook:
    success = 202

    def __init__(self, settings):
        pass

    def read(self, request):
        check_secret(request, "a-secret-of-pigeons")
        return []
"""


def test_a_package_that_is_installed_beside_the_service_extends_it(
    installed: InstalledPackage, elsewhere: Path, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "tms_pigeons.py").write_text(MODULE)
    # pip finds what the package needs by its name in the environment: it looks nowhere else.
    installed.install("--no-index", build(tmp_path / "dist", "wheel", tmp_path))
    (loft := elsewhere / "loft").mkdir()
    service = installed.service(elsewhere, "run", EMAIL_TRANSPORT_URL=f"pigeon://{loft}")
    try:
        service.start()
        key = {"Authorization": f"Bearer {TOKEN}"}
        answer = requests.get(f"{service.base}/v1/pigeons", headers=key, timeout=PATIENCE)
        assert (answer.status_code, answer.json()) == (200, {"pigeons": 2})
        hook = f"{service.base}/inbound/pigeons"
        assert requests.post(f"{hook}/a-secret-of-pigeons", timeout=PATIENCE).status_code == 202
        assert requests.post(f"{hook}/another-secret", timeout=PATIENCE).status_code == 404
        service.send(["ann@example.com"])
        wait_until((loft / "ann@example.com").exists, "the pigeon has arrived")
        service.stop()
    finally:
        service.clear()
        installed.uninstall("tms-pigeons")
