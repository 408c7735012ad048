"""drbo inside the tools that people already use. Each of them needs an extra, and nothing of drbo imports this room."""
