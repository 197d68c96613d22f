"""Accounts and their API keys, sending domains and sms senders.

They are written by the command line and the seed file, never over HTTP. Every use case takes the caller's session and
raises `ServiceError`, which names the invalid attribute and explains the error in one line.
"""
