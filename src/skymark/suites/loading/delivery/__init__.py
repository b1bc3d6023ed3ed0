"""Delivery of batches to an accelerator, by the framework that an adapter's venv has for it."""
