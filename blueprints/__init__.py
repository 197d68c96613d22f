"""Doors for HTTP, one module per noun: each parses, calls one use case and renders. Every module offers `blp`."""
