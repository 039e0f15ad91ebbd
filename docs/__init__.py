"""The site: Sphinx pages of the lessons, of the pages of text, and of every public name."""
