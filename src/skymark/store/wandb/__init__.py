"""Store in Weights & Biases, by its own library in processes of their own."""
