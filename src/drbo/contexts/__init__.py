"""What nature chooses from: atoms, their weights, and how references are made of samples and finite sets."""
