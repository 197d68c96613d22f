"""The console: who is signed in, and what its pages show (docs/console.md)."""
