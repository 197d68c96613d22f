"""What is put into the processes of the service under attack: a resolver of names, and faults that must be found."""
