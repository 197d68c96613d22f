"""The peers: what one would build with the usual parts, or run, instead of this service."""
