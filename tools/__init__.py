"""Programs for whoever changes this project; nothing in the package needs them."""
