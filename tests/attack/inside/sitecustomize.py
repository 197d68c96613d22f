"""Python imports this module first if its folder is on the path. Names under `.attack.example` have the addresses that
the file ATTACK_NAMES says at this moment, as with a name server of the attacker, and ATTACK_BROKEN names a break."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from tests.attack.inside.breaks import BREAKS
from tests.support.breaking import Breaking

SUFFIX = ".attack.example"
_getaddrinfo = socket.getaddrinfo


def resolve(host: Any, *arguments: Any, **options: Any) -> Any:
    """The system's resolver, but for those names."""
    if not isinstance(host, str) or not host.endswith(SUFFIX):
        return _getaddrinfo(host, *arguments, **options)
    addresses = json.loads(Path(os.environ["ATTACK_NAMES"]).read_text()).get(host, [])
    if not addresses:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return [answer for address in addresses for answer in _getaddrinfo(address, *arguments, **options)]


socket.getaddrinfo = resolve
if "ATTACK_BROKEN" in os.environ:
    sys.meta_path.insert(0, Breaking(BREAKS[os.environ["ATTACK_BROKEN"]]))
