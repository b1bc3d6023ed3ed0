#!/bin/sh
# Runs a command as whoever owns the mounted results, so that they own what it writes, and never as
# the machine's root. `exec` throughout: signals of `docker stop` must reach the command itself.
set -eu

results=/app/results

# Started with --user: that is who it shall be.
[ "$(id -u)" -eq 0 ] || exec "$@"

# Rootless, or with user namespaces: root in here is the caller out there, without privileges. Only
# the machine's own root has the whole identity map.
read -r _ outside _ </proc/self/uid_map
owner=$(stat -c %u "$results")
group=$(stat -c %g "$results")
if [ "$owner" -eq 0 ] && [ "$outside" -ne 0 ]; then
    exec "$@"
fi

# The machine's root owns the directory (docker makes a missing one so): an ordinary user gets it.
# Only the directory: what lies in it may be other people's.
if [ "$owner" -eq 0 ]; then
    owner=1000
    group=1000
    chown "$owner:$group" "$results"
fi

exec setpriv --reuid "$owner" --regid "$group" --clear-groups --no-new-privs -- "$@"
