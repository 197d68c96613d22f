"""Flask blueprints, one module per resource: each view parses, calls one use case and renders. Every module has a
`blp`."""
