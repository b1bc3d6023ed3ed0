"""SkyPilot, seen from skymark: client, tasks, clusters, jobs, price catalogue and SSH.

Nothing else in skymark imports SkyPilot.
"""
