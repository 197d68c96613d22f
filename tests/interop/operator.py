"""Actions of an operator of a running service: sends, reports, commands."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

import requests

from tests.support.launched import ROOT, TOKEN, LaunchedService
from tests.support.servers import wait_until

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
PATIENCE = 60.0


@dataclass(frozen=True)
class Operator:
    """Works with one service, by its API and its command line."""

    service: LaunchedService

    def flask(self, *arguments: str) -> Any:
        """What a command prints as JSON."""
        command = [str(ROOT / ".venv" / "bin" / "flask"), "--app", "wsgi", *arguments, "--json"]
        done = subprocess.run(command, cwd=ROOT, env=self.service.environment, capture_output=True, check=True)
        return json.loads(done.stdout)

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """The body of a GET."""
        response = requests.get(self.service.base + path, params=parameters, headers=HEADERS, timeout=30)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def send(self, body: dict[str, Any]) -> str:
        """Sends to one recipient; its uuid."""
        url = f"{self.service.base}/v1/transactional-sends"
        response = requests.post(url, json=body, headers=HEADERS, timeout=30)
        assert response.status_code == 202, response.text
        return str(response.json()["_embedded"]["recipients"][0]["uuid"])

    def send_text(self, mobile: str, text: str) -> str:
        """Sends one text in a group named after the mobile; the recipient's uuid."""
        return self.send(
            {
                "type": "sms",
                "list_id": 1,
                "group_name": mobile,
                "unsubscribe_type": "word",
                "body_text": f"{text} Reply STOP",
                "recipients": [{"mobile": mobile}],
            }
        )

    def show(self, uuid: str) -> dict[str, Any]:
        """A recipient and its timeline."""
        return dict(self.flask("sends", "show", uuid))

    def wait_for_state(self, uuid: str, state: str) -> dict[str, Any]:
        """The recipient once it is in that state."""
        recipient: dict[str, Any] = {}

        def reached() -> bool:
            recipient.update(self.show(uuid))
            return bool(recipient["state"] == state)

        try:
            wait_until(reached, f"{uuid} is {state}", PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {recipient}") from None
        return recipient

    def group(self, name: str) -> dict[str, Any]:
        """The report of that name."""
        (report,) = self.get("/v1/transactional-groups", name=name)["_embedded"]["transactional-groups"]
        return dict(report)
