"""The library of clients/python and the examples, against the running service: `make clients`."""
