"""The first account of an empty installation with all that its first send needs (docs/first-mail.md).

`reach` brings the database to that state and changes nothing that is there already, `answers` asks a relay whether it
takes mail before its URL is stored, and `first_send` shows how to send the first mail.
"""
