#!/bin/bash
@DIRECTIVES@
# Written by `sera loop --slurm`; submit.sh submits all jobs in their order.
# Slurm sends SIGUSR1 before the time is over (--signal) and SIGTERM when it takes the node away; the command then ends
# with 75, with what it finished in the store, and the job is put back into the queue to go on from there.
@SETUP@
set -u
stop=
work=
hand_on() {
  stop=$1
  if [ -n "$work" ]; then kill -s "$1" "$work" 2>/dev/null; fi
}
trap 'hand_on USR1' USR1
trap 'hand_on TERM' TERM

@COMMAND@ &
work=$!
if [ -n "$stop" ]; then hand_on "$stop"; fi
wait "$work"
while kill -0 "$work" 2>/dev/null; do wait "$work"; done
wait "$work"
code=$?
if [ -n "$stop" ] && [ "$code" -gt 128 ]; then code=75; fi  # struck before it could listen

if [ "$code" -eq 75 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt @REQUEUES@ ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
