"""Runs in S3-compatible buckets."""
