"""Automations as workers carry them out."""
