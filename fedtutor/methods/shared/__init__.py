"""What several methods use and no method is."""
