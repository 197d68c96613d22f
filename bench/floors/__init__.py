"""The floors: the least code that does the same work with the same durability."""
