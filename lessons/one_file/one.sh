#!/bin/sh
# one.sh: compiles fsdp.cpp, trains without FSDP and on 1, 2 and 4 ranks, and compares the losses.
set -eu
mkdir -p build/one
echo "--- ${CXX:-g++} compiles lessons/one_file/fsdp.cpp: some seconds"
${CXX:-g++} -std=c++20 -O2 -o build/one/fsdp lessons/one_file/fsdp.cpp -pthread
for ranks in plain 1 2 4; do
  echo "--- fsdp $ranks"
  build/one/fsdp $ranks >build/one/$ranks.txt
  cat build/one/$ranks.txt
  grep '^step' build/one/$ranks.txt >build/one/$ranks.losses
  cmp build/one/plain.losses build/one/$ranks.losses
done
echo "--- The losses are the same in all four runs, to the last digit."
