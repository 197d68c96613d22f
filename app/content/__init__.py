"""Content: personalisation of bodies and subjects, and the checks of attachments. Pure text in, text out.

A body lives here like this: `wildcards` cuts its source into text and markers, `conditionals` pairs the markers that
open and close a conditional and lays everything out as a flat list of steps, and `render` walks those steps once per
recipient. `conditions` and `operators` decide a branch, `values` says what a recipient's values are, and `encoding`
goes between plain text and HTML. Every pass is linear in its input and none of them fails on any markup: what is not
understood stays as written (docs/personalisation.md#invalid-markup).
"""
