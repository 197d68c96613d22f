"""Definitions of what people set up, from which its doors are made (docs/code-layout.md#resource-definitions)."""
