"""Processes of the service, and files that several processes share."""
