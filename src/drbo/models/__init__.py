"""What is known of f."""
