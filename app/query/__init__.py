"""The query language of the API, once for all resources (docs/querying.md).

`fields` says what a resource lets its clients ask, `grammar` and `writes` turn query parameters into a `Query` or
into a refusal, `compile` turns the `Query` into SQL, `links` builds the envelope of the answer. All but `compile` is
pure: no request, no database.
"""
