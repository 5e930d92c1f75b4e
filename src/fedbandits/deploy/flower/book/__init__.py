"""The server's book: everything that has to survive the server, a table for each kind of thing."""
