"""Machine: facts, limits, accelerators, fitness, processes, and the measuring lock."""
