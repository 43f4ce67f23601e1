#!/usr/bin/env bash
# Does it learn? The shipped pocket policy is trained on one pool of worlds and measured on worlds that it has never seen.
#
#   examples/pocket_learns.sh [DIRECTORY] [JOBS]        default: runs/pocket_learns 2
#
# Chains: base (the shipped weights), seed1 and seed2 (20 execution updates each), control (the same with shuffled credit),
# rubric (12 rubric updates). Each is resumable: killed at any moment and started again, it continues. Nothing here chooses
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

train() { # NAME SEED METHOD CONFIG
  sera loop --config "$4" --out "$out/$1" --set "seed=$2" --set "learn.method=$3" --json \
    >"$out/$1.loop.json"
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
    seed1) train seed1 1 sera configs/pocket_learns.yaml; evaluate seed1 "$(last_policy seed1)" ;;
    seed2) train seed2 2 sera configs/pocket_learns.yaml; evaluate seed2 "$(last_policy seed2)" ;;
    control) train control 1 sera_shuffled configs/pocket_learns.yaml; evaluate control "$(last_policy control)" ;;
    rubric) train rubric 3 sera configs/pocket_rubrics.yaml; probe rubric "$(last_policy rubric)" ;;
    *) echo "error: no chain '$1'; allowed: base seed1 seed2 control rubric" >&2; exit 2 ;;
  esac
  echo "chain $1 done after $SECONDS s" >&2
}
export -f evaluate train last_policy probe chain

held_out held_out.jsonl 400 7
held_out held_out_100.jsonl 100 8
held_out held_out_300.jsonl 300 9
printf '%s\n' ${CHAINS:-seed1 seed2 base control rubric} | xargs -P "$jobs" -I{} bash -c 'set -euo pipefail; chain {}'
python examples/pocket_learns.py "$out"
