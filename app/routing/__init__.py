"""Named transports and the routes that choose them (docs/routes.md#routes).

`transports` and `routes` define both, `table` is what the sender workers keep of them and says which transports the
sends of an account may name, and `try_out` sends one message over a transport.
"""
