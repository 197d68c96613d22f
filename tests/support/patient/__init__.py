"""On the PYTHONPATH of services that tests start, for its `sitecustomize`."""
