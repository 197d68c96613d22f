"""Transactional groups, the reports of sends, and the sent contacts of a message."""
