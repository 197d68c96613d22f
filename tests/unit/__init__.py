"""Tests of single rooms, without a running service."""
