"""The hosts of a sending domain: where the links of its mails lead, and where reports about them go
(docs/deliverability.md#hosts-of-a-domain). Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urlsplit

from app.settings import Settings


class SenderHosts(NamedTuple):
    """The hosts of a sender's domain for tracking and for return paths. None stands for the host of the service, that
    of PUBLIC_URL or BOUNCE_DOMAIN."""

    tracking_host: str | None = None
    return_path_host: str | None = None


NO_HOSTS = SenderHosts()


def settings_for(settings: Settings, hosts: SenderHosts) -> Settings:
    """The settings for mail of a domain with these hosts."""
    if hosts == NO_HOSTS:
        return settings
    public_url, bounce_domain = settings.public_url, settings.bounce_domain
    if hosts.tracking_host:
        parts = urlsplit(public_url)
        port = f":{parts.port}" if parts.port else ""
        public_url = parts._replace(netloc=f"{hosts.tracking_host}{port}").geturl()
    return replace(settings, public_url=public_url, bounce_domain=hosts.return_path_host or bounce_domain)
