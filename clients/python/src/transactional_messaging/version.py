"""The version of this library. It speaks version 1 of the API (`/v1`)."""

__version__ = "1.0.0"
