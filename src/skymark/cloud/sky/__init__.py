"""SkyPilot, seen from skymark: client, tasks, clusters, jobs, price catalogue and SSH.

Nothing else imports SkyPilot, but the rehearsal's plugin, which runs inside SkyPilot's own server.
"""
