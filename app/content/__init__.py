"""Personalisation of bodies and subjects, and the checks of attachments. Pure: text in, text out.

`wildcards` splits the source of a body into text and markers, `conditionals` pairs the markers of conditionals and
compiles everything into a flat list of steps, and `render` runs those steps once per recipient. `conditions` decides
which branch is rendered, `values` looks up wildcard values, and `encoding` converts between plain text and HTML. Every
pass is linear in its input, and none of them fails on any markup: invalid markup stays as written
(docs/personalisation.md#invalid-markup).
"""
