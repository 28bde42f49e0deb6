"""What Prometheus is told: names and labels, the fleet at this moment, and what was counted since the start."""
