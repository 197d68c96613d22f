"""Signing in to the console by OpenID Connect (docs/sign-in.md).

`attempts` is what requests do: they begin an attempt, take the answer of the provider, and start the session. `run` is
what a worker does meanwhile, so that no request waits for the provider: it prepares the way there, redeems the code,
and asks later whether people still have their roles. Only `provider` talks to the provider.
"""
