"""An SMPP server of Twisted's SMPP library, in a process of its own: `python -m tests.interop.smsc_process PORT`.

It prints what happens, and takes orders from its standard input, both as one JSON object in a line. The other end is
tests/interop/smsc.py.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

from smpp.pdu.operations import DeliverSM
from smpp.pdu.pdu_types import (
    AddrNpi,
    AddrTon,
    CommandStatus,
    DataCoding,
    DataCodingDefault,
    EsmClass,
    EsmClassGsmFeatures,
    EsmClassMode,
    EsmClassType,
    MessageState,
)
from smpp.twisted.config import SMPPServerConfig
from smpp.twisted.protocol import DataHandlerResponse
from smpp.twisted.server import IAuthenticatedSMPP, SMPPServerFactory
from twisted.cred.error import UnauthorizedLogin
from twisted.internet import reactor
from twisted.internet.stdio import StandardIO
from twisted.protocols.basic import LineReceiver

USER, PASSWORD = "service", "secret"
BINDS = 8


def say(event: str, **fields: Any) -> None:
    """One line for the test."""
    print(json.dumps({"event": event, **fields}), flush=True)


class Portal:
    """Knows one client."""

    def login(self, credentials: Any, _mind: object, _interface: object) -> tuple[Any, ...]:
        """What the library wants of a login."""
        if (credentials.username, credentials.password) != (USER, PASSWORD):
            raise UnauthorizedLogin
        return IAuthenticatedSMPP, credentials.username, lambda: None


class Network:
    """Behind the server: accepts texts, and delivers what the test commands."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._answers: list[str] = []
        # A client that leaves a question unanswered is cut off while the tests run.
        timers = {"enquireLinkTimerSecs": 1, "responseTimerSecs": 5}
        settings = SMPPServerConfig(msgHandler=self.take, systems={USER: {"max_bindings": BINDS}}, **timers)
        self.factory = SMPPServerFactory(settings, Portal())

    def take(self, _system_id: str, server: Any, pdu: Any) -> Any:
        """A `submit_sm`, and its answer."""
        answer = self._answers.pop(0) if self._answers else "ESME_ROK"
        message_id = f"twisted-{next(self._ids)}" if answer == "ESME_ROK" else ""
        given = pdu.params
        say(
            "submitted",
            answer=answer,
            bind=server.bind_type.name,
            message_id=message_id,
            source=[given["source_addr_ton"].name, given["source_addr"].decode()],
            destination=given["destination_addr"].decode(),
            receipt=given["registered_delivery"].receipt.name,
            header=EsmClassGsmFeatures.UDHI_INDICATOR_SET in given["esm_class"].gsmFeatures,
            coding=given["data_coding"].schemeData.name,
            body=given["short_message"].hex(),
        )
        return DataHandlerResponse(CommandStatus[answer], message_id=message_id.encode())

    def obey(self, order: dict[str, Any]) -> None:
        """One order, by its name."""
        getattr(self, "do_" + order.pop("order"))(**order)

    def do_answer(self, statuses: list[str]) -> None:
        """Answers the next texts with these."""
        self._answers += statuses

    def do_part(self) -> None:
        """Ends all binds as a gateway does before its maintenance."""
        self.factory.unbindGateway(USER).addCallback(lambda _: say("parted"))

    def do_cut(self) -> None:
        """Cuts all connections without a word."""
        for bind in self.factory.getBoundConnections(USER):
            bind.transport.abortConnection()
        say("cut")

    def do_hand_in(self, *, mobile: str, number: str, kind: str, coding: str, body: str, **optional: Any) -> None:
        """A `deliver_sm` over the next bind; `optional` are parameters by their names."""
        if "message_state" in optional:
            optional["message_state"] = MessageState[optional["message_state"]]
        if "message_payload" in optional:
            optional["message_payload"] = bytes.fromhex(optional["message_payload"])
        if "receipted_message_id" in optional:
            optional["receipted_message_id"] = optional["receipted_message_id"].encode()
        pdu = DeliverSM(
            source_addr_ton=AddrTon.INTERNATIONAL,
            source_addr_npi=AddrNpi.ISDN,
            source_addr=mobile.encode(),
            dest_addr_ton=AddrTon.INTERNATIONAL,
            dest_addr_npi=AddrNpi.ISDN,
            destination_addr=number.encode(),
            esm_class=EsmClass(EsmClassMode.DEFAULT, EsmClassType[kind]),
            data_coding=DataCoding(schemeData=DataCodingDefault[coding]),
            short_message=bytes.fromhex(body),
            **optional,
        )
        bind = self.factory.getBoundConnections(USER).getNextBindingForDelivery()
        done = bind.sendDataRequest(pdu)
        done.addCallback(lambda result: say("handed in", status=result.response.status.name))
        done.addErrback(lambda failure: say("handed in", status=str(failure.value)))


def main() -> None:
    """Serves until standard input ends."""
    network = Network()
    orders = LineReceiver()
    orders.delimiter = b"\n"
    orders.lineReceived = lambda line: network.obey(json.loads(line))
    orders.connectionLost = lambda *_: reactor.stop()
    StandardIO(orders)
    reactor.listenTCP(int(sys.argv[1]), network.factory, interface="127.0.0.1")
    reactor.callWhenRunning(say, "ready")
    reactor.run()


if __name__ == "__main__":
    main()
