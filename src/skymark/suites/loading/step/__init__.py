"""Training steps that consume batches, by the framework that an adapter's venv has."""
