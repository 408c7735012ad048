"""drbo inside other tools. Each needs an extra, and nothing else in drbo imports this package."""
