"""A visit: a request, of a person or a machine, for the pixel or a link of one recipient's message. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from app.clock import now
from app.recipients.timeline import TimelineStep
from app.settings import Settings
from app.tracking.countries import IPAddress, country_of
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
        """The step of the timeline that it becomes."""
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
    """A visit that happens now. The address of a mail provider's proxy says nothing about the person's country."""
    is_unknown = client.machine or client.proxied
    country = None if is_unknown else country_of(settings.geoip_database, address)
    return Visit(recipient_id, now(), client, country, target)


def link_of_detail(step: str, detail: str | None) -> str:
    """The link of a step that was written for a visit."""
    return (detail or "").partition(" · ")[0] if step in (TimelineStep.CLICKED, TimelineStep.CLICKED_BY_MACHINE) else ""
