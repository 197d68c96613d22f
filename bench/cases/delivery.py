"""Cases E and E2: one and two sending processes deliver accepted mails over SMTP and record their outcomes; and the
processor time that each part takes for a mail."""

from __future__ import annotations

import contextlib

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench.contacts import open_shop
from bench.delivering import Delivery, without_keys
from bench.mail import sink
from bench.options import Options
from bench.stack import api, stack
from bench.turns import Goal, Row, in_turns

SEVERAL = (2, 4)
"""Numbers of sending processes."""


def run(options: Options) -> list[Row]:
    """The rows of E and E2."""
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(parts))
        shop = open_shop(parts)
        server = kept.enter_context(api(parts))
        delivery = Delivery(parts, shop, server, target)
        count = options.amount(12_000 if options.postgresql else 2_000, 300)
        with without_keys(parts):
            rows = [_delivery_row(options, delivery, count)]
            if options.postgresql:
                rows.append(_promised(options, delivery, count))
            times = [delivery.times.row(1)]  # without the rounds below, in which others are suspended beside it
            several = [_several(options, delivery, count, processes) for processes in SEVERAL]
            rows += [_small(options, delivery, count // 4), *several]
            rows += [*times, *(delivery.times.row(processes) for processes in SEVERAL)]
        with without_keys(parts, "ed25519"):
            return [*rows, _signed(options, delivery, count // 2)]


def _delivery_row(options: Options, delivery: Delivery, count: int) -> Row:
    with delivery.ours(count) as ours:
        if not options.postgresql:
            return in_turns("E. deliver, 1 process", "mails/s", Goal(), options.rounds, ours=ours)
        peer = delivery.peer(max(count // 20, 100))
        return in_turns(
            "E. deliver, 1 process",
            "mails/s",
            Goal(0.50, 4),
            options.rounds,
            ours=ours,
            floor=delivery.floor(count),
            peer=peer,
        )


def _promised(options: Options, delivery: Delivery, count: int) -> Row:
    """Against the floor that keeps the promises of the service."""
    with delivery.ours(count) as ours:
        floor = delivery.floor_with_promises(count)
        return in_turns("E. the floor with its promises", "mails/s", Goal(0.70), options.rounds, ours=ours, floor=floor)


def _small(options: Options, delivery: Delivery, count: int) -> Row:
    """Sends to one recipient each, without a goal: mails have nothing in common that could be done once."""
    with delivery.ours(count, per_send=1) as ours:
        return in_turns("E. the same, a send each", "mails/s", Goal(), options.rounds, ours=ours)


def _several(options: Options, delivery: Delivery, count: int, processes: int) -> Row:
    """Several processes; `floor` is our own single process. More of them than cores show what they cost each other."""
    name, goal = f"E. deliver, {processes} processes", Goal(1.6) if processes == 2 else Goal()
    with delivery.ours(count, processes=processes) as together, delivery.ours(count) as alone:
        return in_turns(name, "mails/s", goal, options.rounds, ours=together, floor=alone)


def _signed(options: Options, delivery: Delivery, count: int) -> Row:
    """E2: signed with an RSA key (DKIM), and tracked."""
    folder = delivery.parts.folder
    key = folder / "key.pem"
    private = rsa.generate_private_key(65537, 2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key.write_bytes(private.private_bytes(*form))
    with delivery.ours(count, tracked=True) as ours:
        floor = delivery.floor(count, key) if options.postgresql else None
        return in_turns("E2. DKIM and tracking", "mails/s", Goal(0.80), options.rounds, ours=ours, floor=floor)
