"""CSV files as people have them: their encoding, their delimiter, and their rows with the lines where they stand. Pure;
reads by streaming, in memory that does not depend on the length of a file."""
