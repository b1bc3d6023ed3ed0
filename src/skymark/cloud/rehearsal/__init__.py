"""A cloud on this machine: the real SkyPilot, with simulated machines that cost nothing.

It needs Linux and root, because a simulated machine is a set of kernel namespaces with an SSH
server in it. `world.rehearsal_world` makes one and takes it away; `changes.Changes` says what was
changed on this machine for it, and that it was undone.
"""
