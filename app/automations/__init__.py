"""Automations: what starts by itself when something happens to a contact. Here: the triggers."""
