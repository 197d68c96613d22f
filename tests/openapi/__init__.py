"""Checks of the OpenAPI description with tools of others: `make openapi`."""
