"""The service against the software of others: Postfix, OpenDKIM and Kannel from the distribution's packages, and an
SMPP server of another library than the service's.

Not part of `make test`, because it installs packages and needs root: `make interop` does, and runs only this folder.
"""
