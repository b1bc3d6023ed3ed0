"""A job: every row of a JSON data set by `datasets`, checked; tells the time of its first batch."""

import os
import sys
import time
from pathlib import Path

from datasets import load_dataset

ROWS = 10_000
url = sys.argv[1]
data = os.environ.get("SKYMARK_CACHE_DATA")
if data is None:
    rows = load_dataset("json", data_files={"train": [url]}, field="data", split="train")
elif os.environ.get("SHARED_PARQUET"):
    files = sorted(map(str, Path(data).glob("train-*.parquet")))
    rows = load_dataset("parquet", data_files={"train": files}, split="train")
else:
    files = {"train": f"{data}/train-*.parquet"}
    rows = load_dataset("parquet", data_files=files, split="train", streaming=True)
wrong, count = 0, 0
for batch in rows.iter(batch_size=100):
    if count == 0:
        print(f"first {time.time()}", flush=True)
    for index, text in zip(batch["index"], batch["text"], strict=True):
        wrong += index != count or text != f"{index:05d} " * 100
        count += 1
print(f"rows {count} wrong {wrong + abs(count - ROWS)}", flush=True)
