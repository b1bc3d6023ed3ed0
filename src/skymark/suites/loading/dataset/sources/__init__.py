"""Where real data comes from: folders, tar shards, tables, Parquet, the Hugging Face Hub."""
