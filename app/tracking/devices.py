"""The client behind a request: its device, as ua-parser determines it, and whether it is a machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import ua_parser
from ua_parser import Result

MAX_AGENT_LENGTH = 500
"""Characters that are parsed and stored."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

DESKTOPS = {"Windows", "Mac OS X", "Linux", "Ubuntu", "Fedora", "Debian", "Chrome OS", "FreeBSD", "OpenBSD"}
MOBILE_SYSTEMS = {"iOS", "Android", "Windows Phone", "KaiOS", "BlackBerry OS", "HarmonyOS"}
TABLET = re.compile(r"iPad|Tablet|Kindle|PlayBook|SM-[TXP]\d|Silk/", re.IGNORECASE)
HANDSET = re.compile(r"Mobile|iPhone|iPod", re.IGNORECASE)

IMAGE_PROXIES = {"GmailImageProxy", "YahooMailProxy"}
"""They fetch an image when a person opens the mail, but reveal neither device nor country."""

SCANNERS = re.compile(
    r"barracuda|proofpoint|mimecast|messagelabs|symantec|trendmicro|trend micro|sophos|fireeye|forcepoint|zscaler|"
    r"cloudmark|ironport|mailguard|spamtitan|vade ?secure|bitdefender|safelinks|urldefense|virustotal|urlscan|"
    r"headlesschrome|phantomjs|puppeteer|playwright|link ?(check|scan|preview)|bot\b|crawler|spider",
    re.IGNORECASE,
)
"""Security software and automated browsers that ua-parser's data does not call spiders."""

PRIVACY_PROXY = "Mozilla/5.0"
"""The whole user agent of Apple's mail privacy protection, which fetches every image, whether or not the mail is
read."""

PREFETCH = re.compile(r"prefetch|prerender|preview", re.IGNORECASE)
PREFETCH_HEADERS = ("Purpose", "Sec-Purpose", "X-Purpose", "X-Moz")


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
    found = ua_parser.parse(agent)
    family = found.user_agent.family if found.user_agent else ""
    if method == "HEAD" or any(PREFETCH.search(headers.get(name, "")) for name in PREFETCH_HEADERS):
        return Client(agent, machine=True)
    if family in IMAGE_PROXIES:
        return Client(agent, machine=False, proxied=True)
    if _is_spider(found) or agent == PRIVACY_PROXY or SCANNERS.search(agent):
        return Client(agent, machine=True)
    if not agent:
        return Client(agent, machine=False)
    return Client(agent, machine=False, device_type=_type(agent, found), device_name=_name(found))


def _is_spider(found: Result) -> bool:
    return found.device is not None and found.device.family == "Spider"


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
