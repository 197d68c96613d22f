"""Tests of app/messages."""
