"""Lists and their fields: the specification of a list, finding, reading, creating and changing lists."""
