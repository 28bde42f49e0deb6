"""What the API takes and gives, as its users read it."""
