"""The wheel in an empty environment, outside of the checkout: `make installed` (docs/install.md)."""
