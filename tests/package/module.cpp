// The same program inside a shared object that Python loads, because the library is position
// independent.
#define main perceptron
#include "perceptron.cpp"

extern "C" int train(int argc) { return perceptron(argc, nullptr); }
