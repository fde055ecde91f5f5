#include "comm/self.h"

namespace nanofsdp::comm {
namespace {

// The sum of one is the one, and so is the average: x * (1 / 1).
class SelfGroup final : public Group {
 public:
  SelfGroup() : Group(0, 1) {}
  bool serves(Device) const override { return true; }
  void all_gather(Stream& stream, const Operation&, Tensor in, Tensor out) override {
    copy(stream, in.raw(), out);
  }
  void reduce_scatter(Stream& stream, const Operation&, Tensor in, Tensor out) override {
    copy(stream, in.raw(), out);
  }
  void broadcast(Stream&, const Operation&, Tensor) override {}
  void barrier(Stream&, const Operation&) override {}
  std::shared_ptr<Group> split(const Operation&, int) override { return make_self_group(); }
  void abort(const std::string&) noexcept override {}  // nothing ever waits
};

}  // namespace

std::shared_ptr<Group> make_self_group() { return std::make_shared<SelfGroup>(); }
std::unique_ptr<Communicator> make_self() { return on_streams(make_self_group()); }

}  // namespace nanofsdp::comm
