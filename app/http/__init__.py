"""The door for requests: guards, parsing, rendering, and the wiring of blueprints."""
