"""What was configured, asked and told, and what follows from it."""
