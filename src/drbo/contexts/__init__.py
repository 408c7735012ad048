"""Contexts: atoms, their weights, and references made from samples and finite sets."""
