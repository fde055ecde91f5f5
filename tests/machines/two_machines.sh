#!/bin/sh
# two_machines.sh NANOFSDP: trains on two machines, as far as one has them: two network namespaces
# joined by a virtual cable, two ranks in each. It must be the training of four ranks on one host,
# bit for bit; a rank may come before rank 0; who lacks the token is not let in; and of a rank that
# dies everybody hears.
#
# Needs root, or a kernel that gives a user namespaces of his own; else exit code 77: skipped.
set -eu
here=$(readlink -f "$0")
nanofsdp=$(readlink -f "$1")

# Network, processes and files of our own, and no name for them outside: when the first process ends,
# however it ends, the kernel ends all others and takes cable, files and namespaces away.
if [ "${2-}" != inside ]; then
  for tool in unshare nsenter ip; do
    command -v $tool >/dev/null || { echo "skipped: no $tool here"; exit 77; }
  done
  user=$([ "$(id -u)" = 0 ] || echo --map-root-user)
  apart="unshare $user --net --pid --fork --kill-child --mount-proc"
  if ! why=$($apart ip link add cable-a type veth peer name cable-b 2>&1); then
    echo "skipped: no network namespaces for this user ($why)"
    exit 77
  fi
  exec $apart sh "$here" "$nanofsdp" inside
fi
trap 'exit 143' HUP INT TERM
export TMPDIR=/dev/shm
mount -t tmpfs files $TMPDIR
cd $TMPDIR

fail() {
  echo "FAILED: $*"
  tail -n 5 ./*.err
  exit 1
}

# ---- Two machines: A is this namespace, B that of a process which only sleeps

unshare --net sleep 1000000 &
b=$!
until [ "$(readlink /proc/$b/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
on_a=""
on_b="nsenter --target $b --net"
ip link add cable-a type veth peer name cable-b netns $b
$on_a ip addr add 10.77.0.1/24 dev cable-a
$on_b ip addr add 10.77.0.2/24 dev cable-b
for link in lo cable-a; do $on_a ip link set $link up; done
for link in lo cable-b; do $on_b ip link set $link up; done

# ---- What is trained, and what of it must be the same

export MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 NANOFSDP_TOKEN=sesame
train="$nanofsdp train --n_layer=2 --n_embd=64 --batch_size=8 --eval_iters=2 --threads=1"
forty="--max_iters=40 --eval_interval=20 --metrics"

# rank NAME RANK [OPTION...]: in the background, as a person would start it: two on A, two on B.
rank() {
  name=$1 rank=$2
  shift 2
  case $rank in [01]) machine=$on_a ;; *) machine=$on_b ;; esac
  RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((rank % 2)) LOCAL_WORLD_SIZE=2 \
    $machine $train "$@" >"$name.$rank.out" 2>"$name.$rank.err" &
  eval "pid$rank=$!"
}

numbers_of() { grep -oE '"(iter|loss|grad_norm|train_loss|val_loss)":[^,}]*' "$1"; }

same_as_one_host() {
  numbers_of "$1.jsonl" >"$1.numbers"
  cmp one_host.numbers "$1.numbers" || fail "$1: not the numbers of four ranks on one host"
  echo "$1: $(wc -l <"$1.numbers") numbers, bit for bit those of four ranks on one host"
}

$train $forty=one_host.jsonl --ranks=4 >one_host.out 2>one_host.err || fail "one host"
numbers_of one_host.jsonl >one_host.numbers
[ "$(wc -l <one_host.numbers)" = $((40 * 3 + 3 * 3)) ] || fail "one host: other numbers than expected"

# ---- A rank comes before rank 0, where the system has hardly a port to give but rank 0's

ports=/proc/sys/net/ipv4/ip_local_port_range
as_usual=$(cat $ports)
pair() {
  RANK=$1 WORLD_SIZE=2 LOCAL_RANK=$1 LOCAL_WORLD_SIZE=2 \
    $train --max_iters=2 >early.$1.out 2>early.$1.err
}
echo "29500 29501" >$ports
pair 1 &
early=$!
sleep 1
echo "$as_usual" >$ports
pair 0 || fail "early: rank 0 ended with $?"
wait $early || fail "early: rank 1 ended with $?"
echo "early: a rank that comes before rank 0 does not connect to itself"

# ---- By hand, and somebody without the token comes first

rank by_hand 0 $forty=by_hand.jsonl
rank by_hand 1 $forty=by_hand.jsonl
rank by_hand 2 $forty=by_hand.jsonl
NANOFSDP_TOKEN=barley
rank stranger 3
wait $pid3 && fail "the stranger was let in"
NANOFSDP_TOKEN=sesame
rank by_hand 3 $forty=by_hand.jsonl
for pid in $pid0 $pid1 $pid2 $pid3; do wait "$pid" || fail "by hand: exit code $?"; done
same_as_one_host by_hand
grep -q "rank 3 was not let in by rank 0 at 10.77.0.1:29500: not this run's token" stranger.3.err ||
  fail "the stranger was not told why"
grep -q "refused 10.77.0.2:[0-9]*: not this run's token" by_hand.0.err || fail "no word of a stranger"
echo "stranger: refused, told and logged"

# ---- Ranks of one machine share memory, those of two do not: a plan knows which group keeps scratch

for r in 0 1 2 3; do
  rank groups $r --strategy=hybrid_shard --shard_size=2 --max_iters=2 --sample=0 --explain=True
done
for pid in $pid0 $pid1 $pid2 $pid3; do wait "$pid" || fail "groups: exit code $?"; done
awk '$1 == "communication" && NF == 3 { same = $2 == $3 } END { exit !same }' groups.0.out ||
  fail "groups: $(grep communication groups.0.out)"
echo "groups: the plan's memory for communication is what the run takes"

# ---- A rank dies on B

for r in 0 1 2 3; do rank death $r --max_iters=1000000 --eval_interval=1000000 --log_interval=1; done
until grep -q "^iter 3:" death.0.out; do
  kill -0 $pid0 || fail "death: came too early"
  sleep 0.1
done
kill -KILL $pid3
for pid in $pid0 $pid1 $pid2; do
  code=0
  wait "$pid" || code=$?
  [ $code = 1 ] || fail "death: exit code $code"
done
for r in 0 1 2; do
  grep -q "rank 3 was lost: its connection closed" death.$r.err || fail "rank $r does not know why"
done
echo "death: three ranks on two machines know who was lost"

# ---- By Open MPI, which has to get to B somehow: its remote shell is a step through the wall

if ! command -v mpirun >/dev/null || ! mpirun --version | grep -q "Open MPI"; then
  echo "mpirun: no Open MPI here"
  exit
fi
printf '#!/bin/sh\necho $1 >came_by\nshift\nexec %s sh -c "$*"\n' "$on_b" >through_the_wall
chmod +x through_the_wall
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  mpirun --host 10.77.0.1:2,10.77.0.2:2 --mca plm_rsh_agent "$PWD/through_the_wall" \
  --mca oob_tcp_if_include 10.77.0.0/24 -x MASTER_ADDR -x NANOFSDP_TOKEN \
  $train $forty=mpirun.jsonl >mpirun.out 2>mpirun.err || fail "mpirun: exit code $?"
[ "$(cat came_by)" = 10.77.0.2 ] || fail "mpirun: stayed on its machine"
same_as_one_host mpirun
