"""One round of the game."""
