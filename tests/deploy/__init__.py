"""What deploy/ holds fits the service of this tree."""
