"""Who may do what: roles, and what a token looks like."""
