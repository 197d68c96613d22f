"""Tests of personalisation and of the checks of attachments."""
