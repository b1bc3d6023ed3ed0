"""Sources of real data: folders, tar shards, tables, Parquet, the Hugging Face Hub."""
