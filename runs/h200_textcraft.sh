#!/usr/bin/env bash
# SERA on TextCraft-Synth with Qwen3-4B on 2 nodes of 8 H200: the whole experiment, from the plan to the audit.
#
#   runs/h200_textcraft.sh [DIRECTORY]        default: runs/h200_textcraft
#
# On one node it uses the GPUs of that node: set MACHINE="--gpus 8 --accelerator h200 --gpu-hour 3". On both, SLURM=jobs
# writes the loop as Slurm jobs (16 collectors, 16 ranks) and ends; started again after them, it evaluates and audits.
#
# Every step is resumable: killed at any moment and started again by the same line, it continues. Exit code 3: a stop
# rule fired and its line says which; 75: stopped by a signal. Nothing of this has run on a GPU so far; a test runs it
# on a CPU from the first line to the last with the pocket policy and tiny sizes (tests/learn/test_h200_script.py).
#
# What to expect (SERA paper, arXiv 2610.04902; one training run per arm, success on the 632 validation tasks, greedy):
#
#   after updates      0     250 RAO        250 SERA without D and RT    250 SERA
#   success, %      26.4     68.9 +- 0.8    72.3 +- 0.2                  74.3 +- 0.9
#   of it easy / medium / hard / extreme, SERA: 99.1 / 97.8 / 78.9 / 6.1. Time there: 24 h 06 min on 16 H200.
#   No figure between 0 and 250 is published. Ours to look for: success above the start after 50 updates, rising until
#   about 200; pair accuracy of rubrics above 0.5 from the first epoch on and not falling; entropy falling slowly.
#
# What it costs: `sera plan` says before anything starts. With stated speeds and 3 USD per GPU hour it expected 7.8 h on
# 16 GPUs and 375 USD, between 62 and 4,315; after the first epoch it is asked again with measured ones.
#
# When it stops (runs/stop_rules.sql says how each is computed, on the newest epoch):
#   more than 20 % of the trees lost to infrastructure, or cut off; fewer than half of the rubrics valid; effective
#   sample size below 0.3; more than 5 % of the ratios clipped; entropy below a tenth of the first epoch's;
#   scores that run away from labels over two epochs (sera loop itself, exit code 3);
#   success after 100 updates or more less than 5 points above the start's: then it does not learn, look before paying on.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-runs/h200_textcraft}
config=${CONFIG:-configs/h200_textcraft.yaml}
model=${MODEL:-/models/Qwen3-4B-Instruct-2507} # a policy directory, or a downloaded model that becomes one
engine=${ENGINE:-vllm}                         # serves evaluations; that of the loop is in the config
protocol=${PROTOCOL:-textcraft-632}
limit=${LIMIT:-}      # tasks of an evaluation; all without it
every=${EVERY:-5}     # epochs between two evaluations
patience=${PATIENCE:-100} # updates after which success must have risen
rise=${RISE:-0.05}
read -r -a machine <<<"${MACHINE:---nodes 2 --gpus 8 --accelerator h200 --gpu-hour 2.5,3,4}"
[ ! -f "$model/config.json" ] || machine+=(--model "$model")
read -r -a check <<<"${CHECK:-}"   # more arguments of sera policy check
slurm=${SLURM:-} # directory: write the loop as jobs there, for two nodes, and end
[ -d .venv/bin ] && PATH="$PWD/.venv/bin:$PATH"
mkdir -p "$out"

say() { printf '%s  %s\n' "$(date -u +%H:%M:%S)" "$*" >&2; }

stop() { # RULE...
  printf 'stopped: %s\n' "$*" >&2
  exit 3
}

field() { # FILE EXPRESSION: of a JSON file, named `body`
  python -c 'import json, sys; body = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"
}

plan() { # NAME ARGUMENTS...: memory, tokens, hours and cost, as tables and as JSON
  local name=$1
  shift
  sera plan --config "$config" "${machine[@]}" "$@" --save "$out/$name.json" | tee "$out/$name.txt" >&2
}

evaluate() { # VERSION POLICY: success under the protocol; finished ones are read back
  local served=$2
  [ "$engine" = transformers ] || served="$engine:$2"
  sera eval run --store "$out/evals" --policy "$served" --protocol "$protocol" ${limit:+--limit "$limit"} --json \
    >"$out/eval.v$1.json"
}

healthy() { # the rules on the newest epoch; the rows of those that fired stop the run
  sera data sql "$out/loop/store" @runs/stop_rules.sql --json >"$out/rules.json"
  local fired
  fired=$(field "$out/rules.json" '"; ".join("{rule}: {value:.3g}, limit {bound:g}".format(**r) for r in body if r["fired"])')
  [ -z "$fired" ] || stop "$fired"
}

learns() { # success after enough updates must be above the start's
  sera data sql "$out/evals" "select policy_version as version, avg(coalesce(success, false)::int) as success from evals group by all order by all" \
    --json >"$out/curve.json"
  local verdict
  verdict=$(python - "$out/curve.json" "$patience" "$rise" <<'END'
import json, sys
rows = json.load(open(sys.argv[1]))
patience, rise = int(sys.argv[2]), float(sys.argv[3])
start, last = rows[0], rows[-1]
late = last["version"] - start["version"] >= patience
if late and last["success"] < start["success"] + rise:
    print(f"success {last['success']:.3f} after {last['version'] - start['version']} updates, {start['success']:.3f} before")
END
  )
  [ -z "$verdict" ] || stop "$verdict"
}

say "1. the plan: what it needs, before anything starts"
plan plan
field "$out/plan.json" 'any(s["fits"] for s in body["memory"]["stages"])' | grep -q True || stop "no ZeRO stage fits; see $out/plan.txt"
sera loop --config "$config" --policy "$model" --out "$out/loop" --dry-run --json >"$out/rehearsal.json"

say "2. the model as a policy: hashed, and served as it is trained"
[ -f "$model/policy.json" ] || sera policy make "$model" --name "$(basename "$model" | tr '[:upper:]' '[:lower:]')" >&2
[ -f "$out/check.json" ] || {
  sera policy check "$model" --engine "$engine" "${check[@]}" --json >"$out/check.tmp"
  mv "$out/check.tmp" "$out/check.json"
}

say "3. where it starts"
evaluate 0 "$model"

if [ -n "$slurm" ] && [ ! -e "$out/loop/loop.json" ]; then
  sera loop --config "$config" --policy "$model" --out "$out/loop" --slurm "$slurm" --slurm-nodes 2 --slurm-gpus 8 --slurm-array 16 >&2
  say "the loop is written as jobs: submit them as docs/clusters.md says, and start this again when they have ended"
  exit 0
fi

say "4. collect and learn, with an evaluation and the rules every $every epochs"
epochs=$(field "$out/rehearsal.json" 'sum(step.startswith("learn") for step in body["steps"])')
for ((last = 0; last < epochs; last++)); do
  sera loop --config "$config" --policy "$model" --out "$out/loop" --until "learn:$last" --json >"$out/loop.json"
  healthy
  [ "$last" -gt 0 ] || plan plan.measured --from "$out/loop/store"
  if (((last + 1) % every == 0 || last + 1 == epochs)); then
    learned="next(step['result'] for step in body['steps'] if step['kind'] == 'learn' and step['index'] == $last)"
    policy=$(field "$out/loop/loop.json" "${learned}['policy']")
    version=$(field "$out/loop/loop.json" "${learned}['version']")
    evaluate "$version" "$policy"
    learns
    say "   version $version: success $(field "$out/curve.json" 'round(body[-1]["success"], 3)')"
  fi
done

say "5. what came out: curve, rubrics, cost"
sera eval report "$out/evals" --html "$out/evals.html" --markdown "$out/evals.md" >&2
sera audit "$out/loop/store" --html "$out/audit.html" --gates none --json >"$out/audit.json"
sera data costs "$out/loop/store" --json >"$out/costs.json"
say "done: $out/evals.html, $out/audit.html, $out/costs.json; policies in $out/loop/learn/policies"
