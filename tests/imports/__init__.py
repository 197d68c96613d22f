"""Tests of app/imports: what commands and pages that import a file have in common."""
