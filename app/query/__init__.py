"""The query language of the API, once for all resources (docs/querying.md).

`fields` declares the filters and fields of a resource, `grammar` and `writes` parse query parameters into a `Query` or
raise the errors, `compile` turns the `Query` into SQL, `reader` reads a page or an instance, and `links` builds the
envelope of the response, with the `cursors` of other pages. All but `compile` and `reader` are pure: no request, no
database.
"""
