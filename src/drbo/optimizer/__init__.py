"""The loop: ask, tell, recommend."""
