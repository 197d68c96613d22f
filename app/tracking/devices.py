"""The client behind a request: its device, as ua-parser determines it, and whether it is a machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import ua_parser
from ua_parser import Result

from app.tracking.machines import is_image_proxy, is_machine, only_prefetches

MAX_AGENT_LENGTH = 500
"""Characters that are parsed and stored."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

DESKTOPS = {"Windows", "Mac OS X", "Linux", "Ubuntu", "Fedora", "Debian", "Chrome OS", "FreeBSD", "OpenBSD"}
MOBILE_SYSTEMS = {"iOS", "Android", "Windows Phone", "KaiOS", "BlackBerry OS", "HarmonyOS"}
TABLET = re.compile(r"iPad|Tablet|Kindle|PlayBook|SM-[TXP]\d|Silk/", re.IGNORECASE)
HANDSET = re.compile(r"Mobile|iPhone|iPod", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Client:
    """A client. `agent` is its user agent; a `proxied` one is the image proxy of a mail provider."""

    agent: str
    machine: bool
    proxied: bool = False
    device_type: str | None = None
    """`desktop`, `mobile`, `tablet` or `other`."""
    device_name: str | None = None


def client_of(method: str, headers: Mapping[str, str]) -> Client:
    """The client behind a request. One without a user agent counts as a person with an unknown device."""
    agent = " ".join(_CONTROL.sub(" ", headers.get("User-Agent", "")[:MAX_AGENT_LENGTH]).split())
    if only_prefetches(method, headers):
        return Client(agent, machine=True)
    found = ua_parser.parse(agent)
    if is_image_proxy(found):
        return Client(agent, machine=False, proxied=True)
    if is_machine(agent, found):
        return Client(agent, machine=True)
    if not agent:
        return Client(agent, machine=False)
    return Client(agent, machine=False, device_type=_type(agent, found), device_name=_name(found))


def _type(agent: str, found: Result) -> str:
    system = found.os.family if found.os else ""
    if TABLET.search(agent) or (system == "Android" and not HANDSET.search(agent)):
        return "tablet"
    if system in MOBILE_SYSTEMS or HANDSET.search(agent):
        return "mobile"
    return "desktop" if system in DESKTOPS else "other"


def _name(found: Result) -> str | None:
    """The name of the device, else of its system, else of the program."""
    if found.device and not found.device.family.startswith("Generic"):
        return found.device.family
    part = found.os or found.user_agent
    return part.family if part else None
