"""SMPP 3.4 as raw bytes, written from the standard for the gateways of the tests.

It shares no code with the library that the service uses, so that both have to agree with the standard.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

BIND_TRANSMITTER, BIND_TRANSCEIVER = 0x02, 0x09
SUBMIT_SM, DELIVER_SM, UNBIND, ENQUIRE_LINK, DATA_SM = 0x04, 0x05, 0x06, 0x15, 0x103
GENERIC_NACK = 0x00
ANSWER = 0x80000000
LATER, NEVER = 0x64, 0x65
"""The client's answers to a `deliver_sm`: to be delivered again, and refused permanently."""
OK, SYSTEM_ERROR, INVALID_DESTINATION, INVALID_PASSWORD, QUEUE_FULL, THROTTLED = 0x00, 0x08, 0x0B, 0x0E, 0x14, 0x58
RECEIPT = 0x04


@dataclass(frozen=True)
class Submission:
    """One `submit_sm`."""

    source: tuple[int, int, str]
    destination: tuple[int, int, str]
    esm_class: int
    registered_delivery: int
    data_coding: int
    body: bytes


def read_pdu(connection: socket.socket) -> tuple[int, int, int, bytes]:
    """Command, status, sequence and body of the next PDU. Raises `EOFError` at the end."""
    length, command, status, sequence = struct.unpack(">4L", _read(connection, 16))
    return command, status, sequence, _read(connection, length - 16)


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def send(connection: socket.socket, command: int, status: int, sequence: int, body: bytes) -> None:
    """Sends one PDU."""
    connection.sendall(pdu(command, status, sequence, body))


def pdu(command: int, status: int, sequence: int, body: bytes) -> bytes:
    """One PDU."""
    return struct.pack(">4L", 16 + len(body), command, status, sequence) + body


def deliver_sm(
    sequence: int, addresses: bytes, body: bytes, *, esm_class: int = 0, coding: int = 0, parameters: bytes = b""
) -> bytes:
    """A `deliver_sm`; `addresses` are source and destination."""
    fields = b"\0" + addresses + bytes((esm_class, 0, 0)) + b"\0\0"
    return pdu(DELIVER_SM, OK, sequence, fields + bytes((0, 0, coding, 0, len(body))) + body + parameters)


def address(number: str) -> bytes:
    """A number with its type and numbering plan."""
    return b"\1\1" + number.encode() + b"\0"


def submission(body: bytes) -> Submission:
    """Reads the body of a `submit_sm`."""
    rest = body[body.index(b"\0") + 1 :]
    source, rest = _read_address(rest)
    destination, rest = _read_address(rest)
    esm_class, rest = rest[0], rest[3:]
    _, _, rest = rest.split(b"\0", 2)
    registered, _, coding, _, length = rest[:5]
    return Submission(source, destination, esm_class, registered, coding, rest[5 : 5 + length])


def _read_address(data: bytes) -> tuple[tuple[int, int, str], bytes]:
    text, rest = data[2:].split(b"\0", 1)
    return (data[0], data[1], text.decode()), rest
