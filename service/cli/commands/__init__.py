"""What each command is called and which options it has; the work is done by the modules above."""
