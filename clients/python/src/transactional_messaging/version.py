"""The version of this library: that of the service it is released with. It speaks version 1 of the API (`/v1`)."""

__version__ = "1.1.0"
