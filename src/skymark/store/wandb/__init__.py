"""Runs in Weights & Biases, through its own client in processes of their own."""
