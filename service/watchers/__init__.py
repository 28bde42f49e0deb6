"""One task per node that observes, decides and records; and the table of timed jobs."""
