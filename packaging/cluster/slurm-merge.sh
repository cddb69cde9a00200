#!/bin/bash
# The results of the campaign whose shards slurm.sh ran, once they have ended. Status 1 and the
# names of what is missing if a shard was cut short: submit the array again, and then this.
#SBATCH --job-name=narrows-merge
#SBATCH --cpus-per-task=1
#SBATCH --time=00:30:00
#SBATCH --output=narrows-merge-%j.log
set -euo pipefail
: "${CAMPAIGN:?which campaign, such as CAMPAIGN=l4s-tests/s1}"
: "${STORE:=$PWD/cells}"
: "${OPTIONS:=}"
: "${OUT:=$PWD/merged}"
# shellcheck disable=SC2086
exec narrows merge "$STORE" --campaign "$CAMPAIGN" $OPTIONS --check --out "$OUT" \
    --jobs "${SLURM_CPUS_PER_TASK:-1}"
