"""Process of wandb's command line that ends with its parent.

    python -P -m skymark.store.wandb.tool sync …

A client that waits for a server that is away would otherwise outlive a run that was killed.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import time

POLL_S = 0.5
ORPHANED = 70


def end_with_parent() -> None:
    """End this process soon after its parent, whatever it waits for; wandb's own follows it.

    By polling: the kernel's own notice is bound to the parent's thread, and threads come and go.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_S)
        os._exit(ORPHANED)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


if __name__ == "__main__":
    end_with_parent()
    sys.argv[0] = "wandb"
    runpy.run_module("wandb", run_name="__main__", alter_sys=True)
