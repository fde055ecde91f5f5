#include <cstdlib>

// The operators' tests look at results at once, here as on a GPU (tests/gpu/main.cpp).
[[maybe_unused]] static const int blocking = setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
