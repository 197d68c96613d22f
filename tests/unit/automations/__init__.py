"""Tests of the rules of automations."""
