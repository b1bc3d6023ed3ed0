"""Job of a rented machine, and the timer that the machine arms itself.

Set-up and run are one SkyPilot job, so the idle timer is armed before the set-up begins. The
machine finishes its work and ends itself even without the client and SkyPilot's API server.

SkyPilot arms its own timer on the head node when it hands over the job, for its own queue. If the
client and the server are gone by then, or a lost node keeps the job from ending, that timer never
runs out. The machine's own timer is armed first, on every node.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping
from functools import cache

from skymark.cloud.rented_run import RentedRun
from skymark.cloud.source import commit
from skymark.store.kinds import STALL_VARIABLE, STORE_WAIT_VARIABLE

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
"""Timer program that runs on every node until its end. On a kept machine, other users may have jobs
that it does not see. It leaves such a machine to SkyPilot's timer as long as no node is lost."""

END = """\
python=$(cat "${SKY_RUNTIME_DIR:-$HOME}/.sky/python_path" 2> /dev/null || command -v python3)
"$python" ~/TIMER/end.py && exit
[ "$1" -lt 5 ] || sudo -n shutdown -h now || shutdown -h now
""".replace("TIMER", TIMER)
"""Ends the machine: through its provider, as SkyPilot does, or else by switching it off."""

RESULTS = "results"
"""Directory of runs below the home that SSH logs in to."""

LATEST = "latest"
"""Link to the newest run, in the same directory."""

KILL_AFTER_S = 60
"""Time that `skymark run` has to end its workers and to write down its results, once told."""

LATE_S = 120
"""Time after which the machine's own timer ends a job that is still there."""

ROOM_BYTES = 64 * 2**20
"""Kept free for the end of a job that fills the disk. Without room SkyPilot cannot write down that
it ended, takes it for running, and the idle timer never begins."""

SECRETS = ".skymark-secrets-"
"""Name of a job's file of secrets, with its part or the run's id behind it, in the same home."""

PLAN = ".skymark-plan-"
"""Name of a run's plan, with the run's id behind it, in the same home."""

STORE_WAIT_S = 600
"""Time that a machine stays for stores that take nothing when the run is over; it ends earlier once
the results are home."""

SOURCES = "skymark-source"
"""Directory of submissions, in the same home. SkyPilot sends every job's source into one directory,
so that a job that waits or runs gets the source of the next one; here each has its own."""

INTERPRETERS = ("$HOME/skymark-venv/bin", "/opt/skymark/bin")
"""Directory of skymark after a machine's set-up, and in a container image."""

SPLIT_VARIABLE = "SKYMARK_SPLIT"
"""The way a job's machines share the plan, as ``skymark run --split`` takes it."""

LIMIT_VARIABLE = "SKYMARK_DEADLINE_S"
"""Seconds that set-up and run may take together on the machine; 0 for no limit."""

UNTIL_VARIABLE = "SKYMARK_UNTIL_S"
"""Moment of the machine's clock since its boot when a submission's money is used up; 0 for none."""

PREAMBLE = f"""\
trap : TERM  # SkyPilot's cancel tells every process; this one writes down how the run ended
now() {{ read -r up _ < /proc/uptime; echo "${{up%%.*}}"; }}  # no clock that somebody sets
began=$(now)
part=${{SKYMARK_PART:-$SKYMARK_RUN_ID}}  # several jobs may work on one run
if [ "${{{UNTIL_VARIABLE}:-0}}" -gt 0 ]; then  # of all jobs of a submission, whenever each begins
  left=$(({UNTIL_VARIABLE} - $(now)))
  [ "$left" -gt 0 ] || left=1
  [ "${{SKYMARK_DEADLINE_S:-0}}" -gt 0 ] && [ "$SKYMARK_DEADLINE_S" -lt "$left" ] ||
    SKYMARK_DEADLINE_S=$left
fi
login=~
if [ -n "${{SLURM_JOB_ID:-}}" ]; then  # whose home SkyPilot removes with the job
  login=$(getent passwd "$(id -u)" | cut -d: -f6)
  mkdir -p "$login/{RESULTS}"
  ln -sfn "$login/{RESULTS}" ~/{RESULTS}
fi
if [ -d ~/{TIMER}/parts ]; then  # as long as this shell holds the file, the machine's timer waits
  exec 9> ~/{TIMER}/parts/"$part"
  flock 9
  [ "${{SKYMARK_DEADLINE_S:-0}}" -le 0 ] ||
    echo "$((began + SKYMARK_DEADLINE_S + {KILL_AFTER_S} + {LATE_S}))" >&9
fi
mkdir -p ~/{RESULTS}
outcome=~/{RESULTS}/"$part".outcome
room=~/{RESULTS}/"$part".room
limited() {{
  rm -f "$outcome"
  fallocate --length {ROOM_BYTES} "$room" || head -c {ROOM_BYTES} /dev/zero > "$room"
  left=0  # no limit
  if [ "${{SKYMARK_DEADLINE_S:-0}}" -gt 0 ]; then
    left=$((SKYMARK_DEADLINE_S - $(now) + began))
    [ "$left" -gt 0 ] || left=1
  fi
  timeout --signal=TERM --kill-after={KILL_AFTER_S} "$left" bash -c "$2" 9>&-
  status=$?
  rm -f "$room"
  echo "$1 $status" > "$outcome"
  return "$status"
}}
for home in ~ "$login"; do
  if [ -f "$home/{PLAN}$SKYMARK_RUN_ID" ]; then
    export SKYMARK_PLAN=$home/{PLAN}$SKYMARK_RUN_ID
  fi
done
take_secrets() {{
  for file in ~/{SECRETS}"$part" "$login"/{SECRETS}"$part"; do
    if [ -f "$file" ]; then
      . "$file"
    fi
  done
  remove_secrets
}}
remove_secrets() {{
  rm -f ~/{SECRETS}"$part" "$login"/{SECRETS}"$part"
}}
"""


def secrets_file(part: str) -> str:
    """Return the path of a job's secrets, below the home of the SSH login.

    Args:
        part: the job's name within its run; the run's id for a single job.
    """
    return f"{SECRETS}{part}"


def plan_file(run_id: str) -> str:
    """Return the path of a run's plan, below the home of the SSH login."""
    return f"{PLAN}{run_id}"


@cache
def stall_token() -> str:
    """Return the word by which this process knows that a run itself says that a store stalls.

    Workers do not see its variable, so the text of a loader cannot have it.
    """
    return secrets.token_hex(8)


def machine_variables(run: RentedRun) -> dict[str, str]:
    """Return the variables of a run's job, which the machine's YAML declares."""
    return {
        "SKYMARK_PROFILE": run.profile,
        "SKYMARK_RUN_ID": run.run_id,
        "SKYMARK_STORES": "\n".join(run.stores),
        SPLIT_VARIABLE: run.job.split or "balanced",
        "SKYMARK_COMMIT": commit(),
        LIMIT_VARIABLE: str(run.limits.deadline_s or 0),
        STORE_WAIT_VARIABLE: str(STORE_WAIT_S),
        STALL_VARIABLE: stall_token(),
    }


def taking_part(run: str, part: int, parts: int) -> str:
    """Return a run script that takes one part of the plan, as one of several nodes would.

    Args:
        run: the run script of a machine's YAML.
        part: its number, from 0.
        parts: how many there are.
    """
    return f"export SKYPILOT_NODE_RANK={part} SKYPILOT_NUM_NODES={parts}\n{run}"


def source_place(submission: str) -> str:
    """Return the directory of a submission's source, below the home that SSH logs in to."""
    return f"{SOURCES}/{submission}"


def within(submission: str, run: str) -> str:
    """Return a script that runs another script in the source of a submission.

    On Slurm a job's home differs from the home of the SSH login.
    """
    place = source_place(submission)
    path = ":".join(INTERPRETERS)
    return f"""\
source=$(getent passwd "$(id -u)" | cut -d: -f6)/{place}
[ -d "$source" ] || source=~/{place}
cd "$source" || exit 1
export PYTHONPATH="$source/src" PATH="{path}:$PATH"
{run}"""


def beside_others(run: str) -> str:
    """Return a script whose measurements wait only for measurements on the same GPUs.

    By default a measurement waits for any other on the machine. A job with some of the GPUs runs
    beside jobs with the rest.
    """
    return f"""\
cards=${{CUDA_VISIBLE_DEVICES:-}}
[ -z "$cards" ] || export SKYMARK_LOCK=~/.skymark-cards-${{cards//,/-}}.lock
{run}"""


def script(setup: str | None, run: str) -> str:
    """Return the job's script for bash.

    It leaves ``~/results/RUN-ID.outcome`` with the last phase and its exit status, such as
    ``setup 1`` or ``run 0``; it is not there while one goes on. SKYMARK_DEADLINE_S is the job's
    time limit in seconds, 0 for none: ``timeout`` of coreutils sends TERM, and KILL a minute later.
    The run has the variables of `secrets_file`, which is removed as it begins, or where the set-up
    fails. Both phases find the plan by SKYMARK_PLAN, where one was sent.
    """
    steps = []
    if setup is not None:
        steps.append(f"limited setup {shlex.quote(setup)} || {{ remove_secrets; exit 1; }}")
    steps.append("take_secrets")  # not before: a set-up needs none
    steps.append(f"limited run {shlex.quote(run)} || exit 1")
    return PREAMBLE + "\n".join(steps) + "\n"


def idle_setting(idle_minutes: int) -> str:
    """Return the content of the file with the timer's wait; a change restarts the timer."""
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
