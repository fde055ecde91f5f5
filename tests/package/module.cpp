// The same program inside a shared object, which Python loads: the library is position independent.
#define main perceptron
#include "perceptron.cpp"

extern "C" int train(int argc) { return perceptron(argc, nullptr); }
