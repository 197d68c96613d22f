"""HTTP layer: guards, parsing, rendering, and the registration of blueprints."""
