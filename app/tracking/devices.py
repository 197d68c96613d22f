"""The client behind a request: its device, and whether it is a machine (docs/tracking.md#machines). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import ua_parser
from ua_parser import Result

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

IMAGE_PROXIES = {"GmailImageProxy", "YahooMailProxy"}
"""Programs that fetch an image when a person opens the mail, but reveal neither device nor country."""

PREFETCH = re.compile(r"prefetch|prerender|preview", re.IGNORECASE)
PREFETCH_HEADERS = ("Purpose", "Sec-Purpose", "X-Purpose", "X-Moz")

MIN_READING_TIME = timedelta(seconds=2)
"""Time after the relay took the mail within which no person has got it, opened it and found a link."""
BURST_PERIOD = timedelta(seconds=5)
MIN_LINKS_OF_BURST = 3
"""Different links of a mail that only a scanner follows within the time of a burst: it follows all of them."""


def only_prefetches(method: str, headers: Mapping[str, str]) -> bool:
    """Whether the request says that nobody sees its answer."""
    return method == "HEAD" or any(PREFETCH.search(headers.get(name, "")) for name in PREFETCH_HEADERS)


def is_image_proxy(parsed: Result) -> bool:
    """Whether the client is the proxy by which a mail provider fetches images for a reading person."""
    return parsed.user_agent is not None and parsed.user_agent.family in IMAGE_PROXIES


def is_machine(agent: str, parsed: Result) -> bool:
    """Whether the client's name is that of a machine."""
    is_spider = parsed.device is not None and parsed.device.family == "Spider"
    return is_spider or agent == PRIVACY_PROXY or SCANNERS.search(agent) is not None


def is_suspect(moment: datetime, sent_time: datetime | None, link: str, clicks: Iterable[tuple[str, datetime]]) -> bool:
    """Whether a machine has perhaps made a visit at this moment, which names no machine: one that came too soon, or one
    of a burst. `link` is the one that was followed, empty for the pixel; `clicks` are earlier ones of the recipient,
    with their links."""
    if sent_time is not None and moment - sent_time < MIN_READING_TIME:
        return True
    recent = {other for other, time in clicks if time > moment - BURST_PERIOD}
    return bool(link) and len(recent | {link}) >= MIN_LINKS_OF_BURST


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
    parsed = ua_parser.parse(agent)
    if is_image_proxy(parsed):
        return Client(agent, machine=False, proxied=True)
    if is_machine(agent, parsed):
        return Client(agent, machine=True)
    if not agent:
        return Client(agent, machine=False)
    return Client(agent, machine=False, device_type=_type(agent, parsed), device_name=_name(parsed))


def _type(agent: str, parsed: Result) -> str:
    system = parsed.os.family if parsed.os else ""
    if TABLET.search(agent) or (system == "Android" and not HANDSET.search(agent)):
        return "tablet"
    if system in MOBILE_SYSTEMS or HANDSET.search(agent):
        return "mobile"
    return "desktop" if system in DESKTOPS else "other"


def _name(parsed: Result) -> str | None:
    """The name of the device, else of its system, else of the program."""
    if parsed.device and not parsed.device.family.startswith("Generic"):
        return parsed.device.family
    part = parsed.os or parsed.user_agent
    return part.family if part else None
