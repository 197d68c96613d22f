"""Automations, which start when a contact is created or changed. This room has their triggers."""
