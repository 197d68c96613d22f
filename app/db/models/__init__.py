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
from app.db.models.console import ConsoleLink, ConsolePerson, ConsoleSession, ConsoleSignIn
from app.db.models.contacts import BlockedAddress, Contact, ContactImport, SoftBounces, Unsubscriber
from app.db.models.groups import AutomationStepCount, ContactCount, Group, GroupCount, HourlyCount, TagCount
from app.db.models.idempotency import IdempotencyRecord
from app.db.models.inbound import DomainBackoff, DomainReport, HookToken, InboundRecord, ReplyPart
from app.db.models.installation import (
    DelayedPurge,
    DigestKey,
    InstallationKey,
    NetworkCheck,
    PurgePosition,
    Remains,
    RunningProcess,
    SchemaState,
)
from app.db.models.lists import List, ListField
from app.db.models.messages import Message, MessageVersion
from app.db.models.send_queue import QueueEntry, SendPause
from app.db.models.sends import Attachment, Recipient, RecipientLabel, RecipientStep, Send, SendLink
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
    "ConsolePerson",
    "ConsoleSession",
    "ConsoleSignIn",
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
    "InstallationKey",
    "List",
    "ListField",
    "Message",
    "MessageVersion",
    "NetworkCheck",
    "PurgePosition",
    "QueueEntry",
    "Recipient",
    "RecipientLabel",
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
    "TagCount",
    "Transport",
    "TransportAccount",
    "TriggerFiring",
    "Unsubscriber",
    "Webhook",
    "WebhookAttempt",
    "WebhookSecret",
    "table_of",
]
