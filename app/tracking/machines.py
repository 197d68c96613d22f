"""Which visits machines make: the rules by which they are told apart (docs/tracking.md#machines). Pure.

A visit is certainly made by a machine when its request says so; it is not counted. A visit that is only suspect, by
when it came, counts like that of a person, and its events say that a machine has perhaps made it: the rules are
conservative, because the haste may be a person's after all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

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
"""They fetch an image when a person opens the mail, but reveal neither device nor country."""

PREFETCH = re.compile(r"prefetch|prerender|preview", re.IGNORECASE)
PREFETCH_HEADERS = ("Purpose", "Sec-Purpose", "X-Purpose", "X-Moz")

TOO_QUICK = timedelta(seconds=2)
"""After the relay took the mail: no person has got it, opened it and found a link by then."""
BURST = timedelta(seconds=5)
LINKS_OF_BURST = 3
"""So many different links of a mail within the time of a burst are followed by a scanner, which follows them all."""


def only_prefetches(method: str, headers: Mapping[str, str]) -> bool:
    """Whether the request says that nobody sees its answer."""
    return method == "HEAD" or any(PREFETCH.search(headers.get(name, "")) for name in PREFETCH_HEADERS)


def is_image_proxy(found: Result) -> bool:
    """Whether the client is the proxy by which a mail provider fetches images for a reading person."""
    return found.user_agent is not None and found.user_agent.family in IMAGE_PROXIES


def is_machine(agent: str, found: Result) -> bool:
    """Whether the client's name is that of a machine."""
    is_spider = found.device is not None and found.device.family == "Spider"
    return is_spider or agent == PRIVACY_PROXY or SCANNERS.search(agent) is not None


def is_suspect(moment: datetime, sent_time: datetime | None, link: str, clicks: Iterable[tuple[str, datetime]]) -> bool:
    """Whether a machine has perhaps made a visit at this moment, which names no machine: one that came too soon, or one
    of a burst. `link` is the one that was followed, empty for the pixel; `clicks` are earlier ones of the recipient,
    with their links."""
    if sent_time is not None and moment - sent_time < TOO_QUICK:
        return True
    recent = {other for other, time in clicks if time > moment - BURST}
    return bool(link) and len(recent | {link}) >= LINKS_OF_BURST
