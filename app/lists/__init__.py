"""Lists and their fields: finding, reading, creating and changing them."""
