#include "comm/mesh.h"

#include <utility>

namespace nanofsdp::comm {

Mesh::Mesh(std::unique_ptr<Communicator> world)
    : world_(std::move(world)), gather_(world_.split(0)), reduce_(world_.split(0)) {}

Traffic Mesh::traffic() const {
  Traffic sum = world_.traffic();
  sum += gather_.traffic();
  sum += reduce_.traffic();
  return sum;
}

void Mesh::reset_traffic() {
  for (CountingCommunicator* comm : {&world_, &gather_, &reduce_}) comm->reset();
}

void Mesh::abort(const std::string& reason) noexcept {
  for (CountingCommunicator* comm : {&world_, &gather_, &reduce_}) comm->abort(reason);
}

}  // namespace nanofsdp::comm
