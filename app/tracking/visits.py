"""Visits: requests by people or machines for the pixel or a link of one recipient's message. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from app.clock import now
from app.recipients.timeline import TimelineStep
from app.settings import Settings
from app.tracking.countries import IPAddress, country_of
from app.tracking.devices import Client
from app.tracking.links import LinkTarget


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a link, or for the pixel if `target` is None."""

    recipient_id: int
    moment: datetime
    client: Client
    country: str | None
    target: LinkTarget | None = None

    @property
    def step(self) -> TimelineStep:
        """The timeline step of the visit."""
        if self.client.machine:
            return TimelineStep.CLICKED_BY_MACHINE if self.target else TimelineStep.OPENED_BY_MACHINE
        return TimelineStep.CLICKED if self.target else TimelineStep.OPENED

    @property
    def detail(self) -> str:
        """The link, and the client's user agent."""
        return " · ".join(part for part in (self.link, self.client.agent) if part)

    @property
    def link(self) -> str:
        """The link that was followed; empty for the pixel."""
        return self.target.url if self.target else ""

    @property
    def open_type(self) -> str:
        """The body that was read."""
        return "text" if self.target and self.target.link_type == "text_email" else "html"


def visit_of(
    settings: Settings, recipient_id: int, client: Client, address: IPAddress | None, target: LinkTarget | None
) -> Visit:
    """A visit at this moment. The address of a machine or of a mail provider's proxy does not show a country."""
    is_unknown = client.machine or client.proxied
    country = None if is_unknown else country_of(settings.geoip_database, address)
    return Visit(recipient_id, now(), client, country, target)


def link_of_detail(step: str, detail: str | None) -> str:
    """The link in the detail of a visit's step."""
    return (detail or "").partition(" · ")[0] if step in (TimelineStep.CLICKED, TimelineStep.CLICKED_BY_MACHINE) else ""
