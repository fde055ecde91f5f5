int two();

namespace {
int illegal() {
  __builtin_trap();
  return two();
}
const int kBeforeMain = illegal();
}  // namespace

int main() { return kBeforeMain; }
