"""What is chosen from."""
