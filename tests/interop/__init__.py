"""The service against the software that others run: Postfix, OpenDKIM and Kannel from the distribution's packages.

Not part of `make test`, because it installs packages and needs root: `make interop` does, and runs only this folder.
"""
