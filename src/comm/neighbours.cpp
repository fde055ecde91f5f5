#include "comm/neighbours.h"

#include <fmt/format.h>

#include <sstream>

#include <unistd.h>

#include "base/platform.h"

namespace nanofsdp::comm {
namespace {

constexpr std::uint64_t kWord = 0x6e65696768626f75;

// What the others need to read `word` of this process.
std::string card_of(const std::uint64_t& word) {
  return fmt::format("{} {} {}", getpid(), reinterpret_cast<std::uintptr_t>(&word),
                     process_space());
}

}  // namespace

Neighbours::Neighbours(launch::Store& store, const std::string& group, int rank, int size,
                       std::chrono::milliseconds timeout) {
  const auto key = [&](auto what, int peer) { return fmt::format("{}/{}.{}", group, what, peer); };
  const auto heard = [&](const char* what, int peer) {
    if (auto value = store.get(key(what, peer), timeout)) return *value;
    const std::string lost = store.roll_call();  // who is silent now is so in every later group
    if (!lost.empty()) throw launch::RankError(lost, true);
    throw launch::RankError(
        fmt::format("rank {} waited in vain for {}", store.rank(), key(what, peer)), false);
  };
  allow_siblings_to_read();
  const volatile std::uint64_t word = kWord;
  const std::string space = process_space();
  store.set(key("card", rank), card_of(const_cast<const std::uint64_t&>(word)));
  bool reads_all = !space.empty();
  for (int peer = 0; peer < size; ++peer) {
    std::istringstream card(heard("card", peer));
    std::uint64_t address = 0, read_word = 0;
    std::string their_space;
    std::getline(card >> processes_.emplace_back() >> address >> std::ws, their_space);
    reads_all = reads_all && their_space == space &&
                read(peer, address, &read_word, sizeof read_word) && read_word == kWord;
  }
  store.set(key("reads", rank), reads_all ? "all" : "");
  // Nobody goes on, and gives up the word, before all have read it.
  for (int peer = 0; peer < size; ++peer) all_ = heard("reads", peer) == "all" && all_;
}

bool Neighbours::read(int rank, std::uint64_t from, void* to, std::size_t bytes) const {
  return read_memory_of(processes_[static_cast<std::size_t>(rank)], from, to, bytes);
}

}  // namespace nanofsdp::comm
