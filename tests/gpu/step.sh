# shellcheck shell=bash disable=SC2154
# What check.sh is made of: steps that end in time, leave no process behind and keep what they print.
# It is sourced, and reads $out, $work, $minutes and $deadline. While a step runs, its output is in
# $out/running/NAME; afterwards it is at the end of $out/logs.txt. So a check that is killed midway
# leaves all of its logs, and few files.

# step NAME SECONDS COMMAND...: runs the command, no longer than that in a check of nine minutes, and
# no longer than is left.
step() {
  local name=$1 limit=$(($2 * minutes / 9)) left=$((deadline - SECONDS - 10))
  local log=$out/running/$name begin=$SECONDS code=124
  shift 2
  if ((left > 5)); then
    # `wait` hears a signal at once, a command in the foreground would delay it.
    gpu_check=$$:$name timeout --kill-after=5 $((limit < left ? limit : left)) "$@" > "$log" 2>&1 &
    wait $!
    code=$?
    end_processes "$name"
  else
    echo "no time was left for this step" > "$log"
  fi
  keep "$name" $code $((SECONDS - begin))
  return $code
}

run() { step "$1" "$2" bash -o pipefail -c "${*:3}"; }  # a step whose command is an exported function

# Tells and keeps how a step ended. Steps side by side take turns.
keep() {
  local name=$1 log=$out/running/$1
  {
    flock 9
    printf '%s\t%d\t%d\n' "$@" | tee -a "$work/steps.tsv"
    (($2 == 0)) || tail -n 25 "$log" | cut -c 1-200 | sed 's/^/    /'
    {
      printf '===== %s: exit code %d after %d s\n' "$@"
      tail -c 500000 "$log"  # one that prints without end must not hide the others
      echo
    } >> "$out/logs.txt"
    mv "$log" "$work/logs/$name"
  } 9>> "$out/logs.txt"
}

# end_processes NAME: kills all that the step has started. A process may leave its parent, its group
# and its session, but not the environment that it began with.
end_processes() {
  local files file
  for _ in {1..50}; do
    files=$(grep -lsz "^gpu_check=$$:$1\$" /proc/[0-9]*/environ)
    [[ $files ]] || return 0
    for file in $files; do
      file=${file#/proc/}
      kill -KILL "${file%/environ}" 2>/dev/null
    done
    sleep 0.1
  done
  echo "gpu-check: processes of the step $1 cannot be killed" >&2
}
