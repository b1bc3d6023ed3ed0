"""The timer that a rented machine arms itself, and that asks neither the client nor SkyPilot.

SkyPilot arms its own timer as it hands over the job, on the head node, for its own queue. Where the
client and SkyPilot's API server are gone by then, or a lost node keeps SkyPilot's job from ending,
that timer never runs out. This one is armed on every node, first of all that skymark does there.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

TIMER = ".skymark-timer"
"""Directory in the home of the machine's user: the timer, its settings and what it has seen."""

IDLE_FILE = "idle_s"

START_S = 300
"""Time that the run may take to begin once the timer is armed."""
MARGIN_S = 120
"""Added to the idle minutes: SkyPilot's timer looks once a minute, and is to be first."""
TICK_S = 20.0

PROGRAM = """\
# Ends this machine when nothing of skymark's has worked on it or beside it for long enough.
cd "$(dirname "$0")" || exit 1
now() { read -r up _ < /proc/uptime; echo "${up%%.*}"; }  # no clock that somebody sets
held() { [ -f "$1" ] && ! flock --nonblock "$1" true; }  # by the part of a run that goes on here
works() { for part in parts/*; do held "$part" && return 0; done; return 1; }
late() {
  for part in parts/*; do
    held "$part" && [ -s "$part" ] && [ "$(now)" -gt "$(cat "$part")" ] && return 0
  done
  return 1
}
time_is_up() {  # of every run that was here
  [ -n "$(ls parts)" ] || return 1
  for part in parts/*; do
    [ -s "$part" ] && [ "$(now)" -gt "$(cat "$part")" ] || return 1
  done
}
unmet() { for other in $(cat others); do [ -e "met-$other" ] || return 0; done; return 1; }
ask_others() {  # the other nodes; one that never answered counts as working until the time is up
  lost= other_works=
  for other in $(cat others); do
    case $(timeout 30 ssh -i ~/.ssh/sky-cluster-key -o BatchMode=yes -o ConnectTimeout=10 \\
      -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \\
      "$other" bash TIMER/timer works 2> /dev/null) in
      works) other_works=1; touch "met-$other" ;;
      done) touch "met-$other" ;;
      *) if [ -e "met-$other" ] || time_is_up; then lost=1; else other_works=1; fi ;;
    esac
  done
}
end() {
  echo "$(date --utc +%FT%TZ) ending this machine: $1"
  for attempt in 1 2 3 4 5 6; do
    timeout 300 bash end "$attempt" 8>&-
    sleep 60
  done
}
if [ "${1:-}" = works ]; then
  if works; then echo works; else echo done; fi
  exit
fi
exec 8> lock
flock --nonblock 8 || exit 0  # there is one already
echo "$(($(now) + $(cat start_s)))" > active
asked=0 idle_s=$(cat idle_s)
while sleep "$(cat tick_s)" 8>&-; do
  if [ "$(cat idle_s)" != "$idle_s" ]; then idle_s=$(cat idle_s); now > active; fi
  if late; then end "its time is up"; fi
  if works; then
    now > active
    if [ "$asked" -lt 10 ] && unmet; then ask_others; asked=$((asked + 1)); fi
    continue
  fi
  ask_others
  if [ -n "$other_works" ]; then now > active; continue; fi
  if [ -s kept ] && [ -z "$lost" ] && [ -n "$(ls parts)" ]; then now > active; continue; fi
  if [ "$(now)" -ge "$(($(cat active) + idle_s))" ]; then end "nothing works here"; fi
done
""".replace("TIMER", TIMER)
"""What runs on every node until its end. On a machine that is kept, others may have jobs that it
does not see: it leaves such a one to SkyPilot's timer as long as no node is lost."""

END = """\
python=$(cat "${SKY_RUNTIME_DIR:-$HOME}/.sky/python_path" 2> /dev/null || command -v python3)
"$python" ~/TIMER/end.py && exit
[ "$1" -lt 5 ] || sudo -n shutdown -h now || shutdown -h now
""".replace("TIMER", TIMER)
"""Ends the machine: through its provider, as SkyPilot does, or else by switching it off."""


def idle_setting(idle_minutes: int) -> str:
    """Return the content of the file that says how long the timer waits; a change begins anew."""
    return str(idle_minutes * 60 + MARGIN_S)


def settings(idle_minutes: int, *, keep: bool, start_s: int = START_S) -> dict[str, str]:
    """Return the timer's settings by file.

    Args:
        idle_minutes: that it waits when nothing of skymark's works there.
        keep: whether the machine is to stay for more runs.
        start_s: that the run may take to begin.
    """
    return {
        "start_s": str(start_s),
        IDLE_FILE: idle_setting(idle_minutes),
        "tick_s": f"{TICK_S:g}",
        "kept": "kept" if keep else "",
    }


def arming(files: Mapping[str, str], end_program: str, end: str = END) -> str:
    """Return the script for bash that arms the timer on a node.

    A cluster of one's own is not ended, and has none.

    Args:
        files: of `settings`.
        end_program: for SkyPilot's Python on the machine; ends the machine's cluster.
        end: the script that calls it.
    """
    content = {"timer": PROGRAM, "end": end, "end.py": end_program, **files}
    writes = "\n".join(f"  put {shlex.quote(text)} {name}" for name, text in content.items())
    return f"""\
if [ -n "${{SLURM_JOB_ID:-}}${{KUBERNETES_SERVICE_HOST:-}}" ]; then
  echo "no timer of the machine's own: this cluster is not ended"
elif ! command -v flock > /dev/null || ! command -v setsid > /dev/null; then
  echo "no timer of the machine's own: it has no flock or setsid"
else
  mkdir -p ~/{TIMER}/parts
  put() {{ printf %s "$1" > ~/{TIMER}/"$2.$$" && mv ~/{TIMER}/"$2.$$" ~/{TIMER}/"$2"; }}  # whole
{writes}
  rank=0 others=
  for node in ${{SKYPILOT_NODE_IPS:-}}; do
    [ "$rank" = "${{SKYPILOT_NODE_RANK:-0}}" ] || others="$others $node"
    rank=$((rank + 1))
  done
  put "$others" others
  setsid --fork bash ~/{TIMER}/timer >> ~/{TIMER}/log 2>&1 < /dev/null
fi
"""
