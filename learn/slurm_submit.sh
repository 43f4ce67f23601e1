#!/bin/bash
# Written by `sera loop --slurm`: submits the jobs of a loop, each to start when the one before it has ended well.
# Submitted again after a failure it goes on: what is done takes no time.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$here/logs"
previous=

submit() {
  local after=()
  if [ -n "$previous" ]; then after=("--dependency=afterok:$previous" --kill-on-invalid-dep=yes); fi
  previous=$(sbatch --parsable --chdir="$here" "${after[@]}" "$here/$1")
  previous=${previous%%;*}
  echo "$1 $previous"
}

@SUBMITS@
