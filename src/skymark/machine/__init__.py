"""The machine: facts, limits, accelerator, fitness, processes, the measuring lock."""
