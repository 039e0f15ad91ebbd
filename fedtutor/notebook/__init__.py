"""What a cell of a notebook calls."""
