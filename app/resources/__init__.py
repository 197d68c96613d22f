"""Definitions of what people set up, from which its doors are made (docs/architecture.md#resource-definitions)."""
