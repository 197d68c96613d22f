"""Schemas of requests and responses, one module per resource; no database."""
