#include "train/loss_meter.h"

#include "base/transfer.h"

namespace nanofsdp::train {

LossMeter::LossMeter(Context& context, comm::Mesh& mesh, int count)
    : context_(context),
      mesh_(mesh),
      count_(count),
      memory_(context.buffer(MemoryClass::communication, mesh.size() * count, DType::float64)) {}

Tensor LossMeter::local() const {
  return memory_.tensor({mesh_.size() * count_}, DType::float64)
      .slice(mesh_.rank() * count_, count_);
}

void LossMeter::clear() {
  std::vector<double> zeros(static_cast<std::size_t>(count_));
  transfer(*context_.compute, Tensor(zeros.data(), {count_}, DType::float64), local());
}

std::vector<double> LossMeter::over_ranks() {
  const Tensor all = memory_.tensor({mesh_.size() * count_}, DType::float64);
  Stream& stream = *context_.compute;
  if (mesh_.size() > 1) {
    stream.wait(mesh_.world().all_gather(stream, local(), all, {.unit = "loss", .control = true}));
  }
  std::vector<double> values(static_cast<std::size_t>(all.numel()));
  transfer(stream, all, Tensor(values.data(), all.shape(), DType::float64));
  std::vector<double> sums(static_cast<std::size_t>(count_));
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % sums.size()] += values[i];
  return sums;
}

}  // namespace nanofsdp::train
