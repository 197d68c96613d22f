"""A name server on the loopback address that answers queries for TXT and MX records from tables."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

FAILING = "SERVFAIL"


class NameServer:
    """`texts[name]` holds the TXT records of a name, or `FAILING`, and `exchanges[name]` its MX records,
    and `aliases[name]` the name that it is an alias of; other names do not exist. While `silent` is set, it answers
    nothing; `asked` has all names that it was asked for."""

    def __init__(self, port: int = 0) -> None:
        self.silent = threading.Event()
        self.asked: list[str] = []
        self.texts: dict[str, list[str] | str] = {}
        self.exchanges: dict[str, list[str]] = {}
        self.aliases: dict[str, str] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._serve)

    @property
    def address(self) -> str:
        """The value of the setting DNS_RESOLVER."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bell:
            bell.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            wire, client = self._socket.recvfrom(4096)
            if not wire:
                return
            self.asked.append(dns.message.from_wire(wire).question[0].name.to_text(omit_final_dot=True))
            if not self.silent.is_set():
                with contextlib.suppress(OSError):
                    self._socket.sendto(self._answer(wire), client)

    def _answer(self, wire: bytes) -> bytes:
        question = dns.message.from_wire(wire)
        answer = dns.message.make_response(question)
        answer.flags |= dns.flags.RA
        asked = question.question[0]
        name = asked.name.to_text(omit_final_dot=True)
        texts = self.texts.get(name)
        if asked.rdtype == dns.rdatatype.MX and name in self.exchanges:
            answer.answer.append(dns.rrset.from_text_list(asked.name, 60, "IN", "MX", self.exchanges[name]))
        elif asked.rdtype == dns.rdatatype.CNAME and name in self.aliases:
            answer.answer.append(dns.rrset.from_text_list(asked.name, 60, "IN", "CNAME", [self.aliases[name]]))
        elif texts is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif texts == FAILING:
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif asked.rdtype == dns.rdatatype.TXT:
            quoted = [" ".join(f'"{text[at : at + 255]}"' for at in range(0, len(text), 255)) for text in texts]
            answer.answer.append(dns.rrset.from_text_list(asked.name, 60, "IN", "TXT", quoted))
        return answer.to_wire()
