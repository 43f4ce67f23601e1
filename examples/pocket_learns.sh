#!/usr/bin/env bash
# Does it learn? The shipped pocket policy is trained on one pool of worlds and measured on worlds that it has never seen.
#
#   examples/pocket_learns.sh [DIRECTORY] [JOBS]        default: runs/pocket_learns 2
#
# Chains: base (the shipped weights); seed1 and seed2 (20 execution updates each, every agent paid by the program's verdict);
# control (seed 1 with shuffled credit); rubric (12 rubric updates); untrained1 and untrained2 (20 execution updates paid by
# rubrics of the policy itself, which never learned to write them); trained1 and trained2 (the same, rubrics by the policy of
# chain rubric). Each is resumable: killed at any moment and started again, it continues. Nothing here chooses
# a checkpoint or a learning rate: the last policy of a chain is the one that is measured.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-runs/pocket_learns}
jobs=${2:-2}
export out OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 DS_ACCELERATOR=cpu
export PATH="$PWD/.venv/bin:$PATH"
mkdir -p "$out"

held_out() { # FILE N SEED TIERS: tasks of worlds that no training uses
  [ -f "$out/$1" ] || sera tasks build textcraft --worlds 8000-8199 --items-per-tier 8 --max-tier 3 --n "$2" --seed "$3" \
    --split test --out "$out/$1" >/dev/null
}

evaluate() { # NAME POLICY: temperature 1 on 400 tasks x 4, greedy on the same, success@8 on 100
  local base=(sera eval --store "$out/evals/$1" --policy "$2" --config configs/pocket_eval.yaml --json)
  "${base[@]}" --tasks "$out/held_out.jsonl" --samples 4 --temperature 1 --protocol t1 >"$out/$1.t1.json"
  "${base[@]}" --tasks "$out/held_out.jsonl" --samples 1 --temperature 0 --protocol greedy >"$out/$1.greedy.json"
  "${base[@]}" --tasks "$out/held_out_100.jsonl" --samples 8 --temperature 1 --protocol at8 >"$out/$1.at8.json"
}

follow() { # NAME: the policies on the way, temperature 1 on the same 400 tasks x 2, for the curve
  local policy
  for policy in "$out/$1"/learn/policies/v0000{04,08,12,16}; do
    sera eval --store "$out/evals/$1" --policy "$policy" --config configs/pocket_eval.yaml --json \
      --tasks "$out/held_out.jsonl" --samples 2 --temperature 1 --protocol "${policy##*/}" >/dev/null
  done
}

train() { # NAME SEED METHOD CONFIG [MORE...]
  local name=$1 seed=$2 method=$3 config=$4
  shift 4
  sera loop --config "$config" --out "$out/$name" --set "seed=$seed" --set "learn.method=$method" "$@" --json \
    >"$out/$name.loop.json"
}

execution() { # NAME SEED METHOD [MORE...]: 20 execution updates, then all measurements and the curve
  local name=$1 seed=$2 method=$3
  shift 3
  train "$name" "$seed" "$method" configs/pocket_learns.yaml "$@"
  evaluate "$name" "$(last_policy "$name")"
  follow "$name"
}

last_policy() { # NAME
  python -c 'import json, sys; print(json.load(open(sys.argv[1]))["policy"])' "$out/$1.loop.json"
}

probe() { # NAME WRITER: held-out delegations, rubrics by WRITER, everything else by the shipped weights
  sera collect --config configs/pocket_probe.yaml --tasks "$out/held_out_300.jsonl" --store "$out/probe/$1" \
    --set "policy.roles.writer=$2" --seal --json >"$out/$1.probe.json"
  sera audit "$out/probe/$1" --json --html "$out/$1.probe.html" >"$out/$1.audit.json"
}

chain() {
  case $1 in
    base) evaluate base pocket; probe base pocket ;;
    seed[12]) execution "$1" "${1#seed}" rao ;;
    control) execution control 1 rao_shuffled ;;
    untrained[12]) execution "$1" "${1#untrained}" rubric_reward ;;
    trained[12])
      execution "$1" "${1#trained}" external_writer --set "collect.policy.roles.writer=$(last_policy rubric)" ;;
    rubric) train rubric 3 sera configs/pocket_rubrics.yaml; probe rubric "$(last_policy rubric)" ;;
    *) echo "error: no chain '$1'; allowed: base rubric control seed1 seed2 untrained1 untrained2 trained1 trained2" >&2; exit 2 ;;
  esac
  echo "chain $1 done after $SECONDS s" >&2
}
export -f evaluate follow train execution last_policy probe chain

held_out held_out.jsonl 400 7
held_out held_out_100.jsonl 100 8
held_out held_out_300.jsonl 300 9
play() { # CHAINS...: side by side
  printf '%s\n' "$@" | xargs -P "$jobs" -I{} bash -c 'set -euo pipefail; chain {}'
}
play ${CHAINS:-seed1 seed2 rubric base control untrained1 untrained2}
[ -n "${CHAINS:-}" ] || play trained1 trained2 # with the writer that chain rubric made
python examples/pocket_learns.py "$out"
