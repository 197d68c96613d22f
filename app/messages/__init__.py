"""Stored messages: the templates that a send may refer to."""
