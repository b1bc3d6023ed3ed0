"""The commands of a batch script: run one worker, store what it has, queue up again, clean up."""

from __future__ import annotations

BODY = r"""set -euo pipefail
say() { echo "skymark job: $*" >&2; }
@CHECK@
command -v skymark >/dev/null || {
  say "no skymark on PATH; activate its venv before sbatch, or in your --template"
  exit 2
}

# What is measured lies on the node's own disk, and goes to the directory of all nodes cell by cell:
# a task that begins again, on any node, goes on from there.
run=@RUN@
results=@RESULTS@
case $results in /*) ;; *) results=$SLURM_SUBMIT_DIR/$results ;; esac
case $results in
  *[!A-Za-z0-9/._~-]*) say "$results has characters that no file:// address takes"; exit 2 ;;
esac
mkdir -p "$results"
most_restarts=${SKYMARK_MOST_RESTARTS:-20}  # a limit shorter than one round would go on for ever
@CACHES@
scratch=$(mktemp -d "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/skymark-$SLURM_JOB_ID.XXXXXX")
worker=""
told=""
again=""

# shellcheck disable=SC2317,SC2329  # traps call these
clean_up() { rm -rf @REMOVED@; }
trap clean_up EXIT
# shellcheck disable=SC2317,SC2329
end_worker() {
  if [ -z "$worker" ]; then told=yes; else kill -TERM "$worker" 2>/dev/null || true; fi
}
trap 'again=yes; end_worker' USR1  # the time limit is near
trap end_worker TERM INT           # cancelled, preempted, or the node is shut down

@COMMAND@ &
worker=$!
[ -z "$told" ] || end_worker  # told before it was known whom to tell
while kill -0 "$worker" 2>/dev/null; do wait "$worker" || true; done
status=0
wait "$worker" || status=$?

restarts=${SLURM_RESTART_COUNT:-0}
if [ -n "$again" ] && [ "$status" -ne 0 ] && [ "$restarts" -lt "$most_restarts" ]; then
  task=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
  say "the time limit is near; what is measured is in $results/$run, and the task queues up again"
  clean_up
  scontrol requeue "${task:-$SLURM_JOB_ID}"
fi
exit "$status"
"""
"""Between ``@``, what `skymark.cloud.render.slurm` puts in."""

CHECK = """\
[ -n "${SLURM_ARRAY_TASK_ID:-}" ] || {
  say "this script is for arrays; submit it as its comments say"
  exit 2
}"""
"""Of a script that is submitted once for each type of workers."""

CACHES = """\
caches=@ROOT@/hf-datasets-$SLURM_JOB_ID
mkdir -p @ROOT@
rm -rf "$caches"  # left where a node failed, and the job began again
mkdir -m 700 "$caches"
"""
"""Of a script whose job has caches of its own below a directory that its site names."""
