#include <cstdlib>

// The operators' tests read results at once, here and on a GPU (tests/gpu/main.cpp).
[[maybe_unused]] static const int blocking = setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
