"""Accounts and what belongs to them alone: API keys, sending domains and sms senders.

These are written by the command line and the seed file, never over HTTP. Every use case takes the session of its
door and raises `ServiceError` with the attribute at fault and one clear line.
"""
