"""The tables, one module per noun."""

from app.db.models.accounts import Account, AccountHost, ApiKey, DkimKey, Domain, SmsSender
from app.db.models.audit import AuditEntry, AuditSeal
from app.db.models.automations import (
    Automation,
    AutomationPassedStep,
    AutomationRun,
    AutomationStep,
    AutomationVersion,
    TriggerFiring,
)
from app.db.models.base import Base, table_of
from app.db.models.bulk_actions import BulkAction
from app.db.models.captured import CapturedMessage
from app.db.models.console import ConsoleLink, ConsoleSession
from app.db.models.contacts import BlockedAddress, Contact, SoftBounces, Unsubscriber
from app.db.models.counts import AutomationStepCount, ContactCount, GroupCount, HourlyCount
from app.db.models.digest_key import DigestKey
from app.db.models.groups import Group
from app.db.models.idempotency import IdempotencyRecord
from app.db.models.imports import ContactImport
from app.db.models.inbound import DomainBackoff, DomainReport, HookToken, InboundRecord, ReplyPart
from app.db.models.lists import List, ListField
from app.db.models.messages import Message, MessageVersion
from app.db.models.network_checks import NetworkCheck
from app.db.models.processes import RunningProcess
from app.db.models.remains import Remains
from app.db.models.retention import DelayedPurge, PurgePosition
from app.db.models.schema_state import SchemaState
from app.db.models.send_pauses import SendPause
from app.db.models.send_queue import QueueEntry
from app.db.models.sends import Attachment, Recipient, RecipientStep, Send, SendLink
from app.db.models.transports import RelayRefusal, Route, RoutingVersion, Transport, TransportAccount
from app.db.models.webhooks import Event, EventRotation, Webhook, WebhookAttempt, WebhookSecret

__all__ = [
    "Account",
    "AccountHost",
    "ApiKey",
    "Attachment",
    "AuditEntry",
    "AuditSeal",
    "Automation",
    "AutomationPassedStep",
    "AutomationRun",
    "AutomationStep",
    "AutomationStepCount",
    "AutomationVersion",
    "Base",
    "BlockedAddress",
    "BulkAction",
    "CapturedMessage",
    "ConsoleLink",
    "ConsoleSession",
    "Contact",
    "ContactCount",
    "ContactImport",
    "DelayedPurge",
    "DigestKey",
    "DkimKey",
    "Domain",
    "DomainBackoff",
    "DomainReport",
    "Event",
    "EventRotation",
    "Group",
    "GroupCount",
    "HookToken",
    "HourlyCount",
    "IdempotencyRecord",
    "InboundRecord",
    "List",
    "ListField",
    "Message",
    "MessageVersion",
    "NetworkCheck",
    "PurgePosition",
    "QueueEntry",
    "Recipient",
    "RecipientStep",
    "RelayRefusal",
    "Remains",
    "ReplyPart",
    "Route",
    "RoutingVersion",
    "RunningProcess",
    "SchemaState",
    "Send",
    "SendLink",
    "SendPause",
    "SmsSender",
    "SoftBounces",
    "Transport",
    "TransportAccount",
    "TriggerFiring",
    "Unsubscriber",
    "Webhook",
    "WebhookAttempt",
    "WebhookSecret",
    "table_of",
]
