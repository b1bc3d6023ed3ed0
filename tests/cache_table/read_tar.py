"""A job: every sample of 64 tar shards by `webdataset`, checked; tells the time of its first."""

import os
import sys
import time

import webdataset

SAMPLES = 64 * 20
address, name = sys.argv[1:]
urls = [f"{address}/{name}/{number}.tar" for number in range(64)]
samples = webdataset.WebDataset(
    urls, shardshuffle=False, empty_check=False, cache_dir=os.environ["WDS_CACHE"]
)
wrong, count = 0, 0
for sample in samples:
    if count == 0:
        print(f"first {time.time()}", flush=True)
    wrong += sample["txt"] != f"{name} {count}".encode()
    count += 1
print(f"rows {count} wrong {wrong + abs(count - SAMPLES)}", flush=True)
