"""Job files for schedulers that people use themselves: Slurm, JobSet, AIchor, SkyPilot."""
