"""Builds that are broken on purpose."""
