#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "base/check.h"
#include "launch/store.h"

namespace nanofsdp::testing {

using launch::RankError;
using launch::Rendezvous;
using launch::Socket;
using launch::Store;
using namespace std::chrono_literals;

// A run of `size` ranks, which are all threads of this process.
class Party {
 public:
  explicit Party(int size) : listener_(launch::listen_on("127.0.0.1", 0)) {
    base_.port = listener_.local_port();
    base_.token = "open sesame";
    base_.program = 7;
    base_.size = base_.local_size = size;
  }

  Rendezvous of(int rank) {
    Rendezvous r = base_;
    r.rank = rank;
    r.listener = rank == 0 ? dup(listener_.descriptor()) : -1;
    return r;
  }

  // Lets every rank join the run and then run `body`.
  void everybody(const std::function<void(Store& store)>& body) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < base_.size; ++rank) {
      ranks.emplace_back([this, rank, &body] {
        Store store(of(rank));
        body(store);
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }

 private:
  Socket listener_;
  Rendezvous base_;
};

// The text of the error that `action` throws.
template <class Exception, class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  return "no error";
}

inline std::string number(int i) { return std::to_string(i); }

}  // namespace nanofsdp::testing
