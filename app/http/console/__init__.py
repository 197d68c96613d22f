"""The console over HTTP: who is signed in, which requests may change something, headers, assets and errors
(docs/console-security.md)."""
