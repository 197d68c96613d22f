"""What a send would do, without sending it (docs/dry-run.md).

The check of the request is that of `app/sends/accept`, the messages are built by `app/sends/delivery`. Here is only
what stands between them if nothing is stored: contacts that would be created, and rows that would be claimed.
"""
