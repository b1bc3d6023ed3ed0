"""Store in S3-compatible buckets."""
