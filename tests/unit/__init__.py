"""Tests of single packages, without a running service."""
