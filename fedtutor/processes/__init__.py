"""The same method, the same bits, with a process of its own for every client."""
