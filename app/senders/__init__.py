"""Approved senders of text messages."""
