#include "engine/session.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/fingerprint.h"
#include "comm/local.h"

namespace nanofsdp::play {

Player::Player(std::unique_ptr<comm::Communicator> world, const Settings& settings,
               const data::Dataset& dataset)
    : context(world->rank(), world->size()),
      recorder(context),
      trainer(context, std::move(world), settings.options, dataset) {}

std::uint64_t Player::fingerprint_of_weights() {
  std::uint64_t hash = fingerprint(std::string_view());
  trainer.model().summon_full_parameters([&](const nn::Parameter& parameter) {
    hash = fingerprint(std::as_bytes(parameter.data.span<float>()), hash);
  });
  return hash;
}

Session::Session(const Settings& settings, const data::Dataset& dataset)
    : settings_(settings), players_(static_cast<std::size_t>(settings.ranks)) {
  data::check_step({settings_.options.batch_size, settings_.options.gradient_accumulation_steps,
                    settings_.ranks});
  auto group = comm::make_local_group(settings_.ranks);
  on_threads([&](std::size_t rank) {
    players_[rank] = std::make_unique<Player>(std::move(group[rank]), settings_, dataset);
  });
}

void Session::on_every_rank(const std::function<void(Player&)>& work) {
  on_threads([&](std::size_t rank) { work(*players_[rank]); });
}

bool Session::alive() const {
  return std::all_of(players_.begin(), players_.end(), [](const auto& p) { return p != nullptr; });
}

void Session::on_threads(const std::function<void(std::size_t)>& work) {
  std::mutex mutex;
  std::exception_ptr cause, consequence;  // the first cause and the first consequence
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < players_.size(); ++rank) {
    threads.emplace_back([&, rank] {
      std::exception_ptr error;
      bool follows = false;
      try {
        work(rank);
      } catch (const comm::CommError& e) {
        error = std::current_exception();
        follows = e.consequence;
      } catch (...) {
        error = std::current_exception();
      }
      if (!error) return;
      players_[rank].reset();  // this tells the ranks that wait for this one
      const std::lock_guard lock(mutex);
      std::exception_ptr& first = follows ? consequence : cause;
      if (!first) first = error;
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (cause || consequence) std::rethrow_exception(cause ? cause : consequence);
}

}  // namespace nanofsdp::play
