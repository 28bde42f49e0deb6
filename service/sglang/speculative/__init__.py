"""What can be known of a draft before a start: its arguments, its configuration, its weights, by engine version."""
