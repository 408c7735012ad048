"""What a choice costs and buys."""
