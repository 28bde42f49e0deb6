"""Servers: their states, what one look at them sees, and the moves that follow from it."""
