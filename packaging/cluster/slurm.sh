#!/bin/bash
# A campaign as a job array of Slurm: each task runs one shard into a store that all nodes share.
#
#   mkdir -p sweep && cd sweep
#   CAMPAIGN=l4s-tests/s1 sbatch --array=1-8 --parsable .../slurm.sh
#   CAMPAIGN=l4s-tests/s1 sbatch --dependency=afterany:JOB .../slurm-merge.sh
#
# The number of tasks is the number of shards. A task that ended early is run again by submitting
# the whole array again: what is in the store is not run twice.
#SBATCH --job-name=narrows
#SBATCH --array=1-8
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=1G
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
#SBATCH --output=narrows-%A_%a.log
set -euo pipefail
: "${CAMPAIGN:?which campaign, such as CAMPAIGN=l4s-tests/s1}"
: "${STORE:=$PWD/cells}"
# Options that decide which runs there are (--seeds, --only, --set) go here: the same for all
# tasks and for the merge. --jobs is each task's own.
: "${OPTIONS:=}"
# shellcheck disable=SC2086  # OPTIONS is several words.
exec narrows campaign "$CAMPAIGN" $OPTIONS --shard auto --store "$STORE" \
    --jobs "${SLURM_CPUS_PER_TASK:-1}"
