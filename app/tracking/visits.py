"""A visit: that somebody, or something, asked for the pixel or followed a link of one recipient's message. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from app.clock import now
from app.recipients.timeline import TimelineStep
from app.settings import Settings
from app.tracking.countries import Address, country_of
from app.tracking.devices import Client
from app.tracking.link_targets import LinkTarget


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a pixel, or for a link where there is a `target`."""

    recipient_id: int
    moment: datetime
    client: Client
    country: str | None
    target: LinkTarget | None = None

    @property
    def step(self) -> TimelineStep:
        """Its name in the timeline."""
        if self.client.machine:
            return TimelineStep.CLICKED_BY_MACHINE if self.target else TimelineStep.OPENED_BY_MACHINE
        return TimelineStep.CLICKED if self.target else TimelineStep.OPENED

    @property
    def detail(self) -> str:
        """The link, and the client's own words."""
        return " · ".join(part for part in (self.link, self.client.agent) if part)

    @property
    def link(self) -> str:
        """What was followed; empty for the pixel."""
        return self.target.url if self.target else ""

    @property
    def open_type(self) -> str:
        """What was read."""
        return "text" if self.target and self.target.link_type == "text_email" else "html"


def visit_of(
    settings: Settings, recipient_id: int, client: Client, address: Address | None, target: LinkTarget | None
) -> Visit:
    """A visit that happens now. A mail provider that asks in the person's place tells where it is itself."""
    nowhere = client.machine or client.proxied
    country = None if nowhere else country_of(settings.geoip_database, address)
    return Visit(recipient_id, now(), client, country, target)


def link_of_detail(step: str, detail: str | None) -> str:
    """The link of a step that was written for a visit."""
    return (detail or "").partition(" · ")[0] if step in (TimelineStep.CLICKED, TimelineStep.CLICKED_BY_MACHINE) else ""
