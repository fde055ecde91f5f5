#pragma once

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "comm/local.h"
#include "comm/run_ranks.h"
#include "hooked_run.h"
#include "launch/launch.h"

/// @file
/// @brief Trains with the reader's hooks on two processes, and names the first thing in which the
/// run differs from the library's.

namespace lesson {

inline constexpr int kHookedRanks = 2;

/// The lines that each rank has said.
using Lines = std::vector<std::vector<std::string>>;

/// The first difference. Without one, `where` is empty.
struct Difference {
  std::string where, yours, right, hint;
};

/// A file in which a rank writes its lines one by one. Its lines are still there if the rank
/// crashes.
class Paper {
 public:
  Paper() : file_(std::tmpfile(), &std::fclose) {
    if (!file_) throw std::runtime_error("the checker can make no temporary file");
  }
  void write(std::string line) {
    std::ranges::replace(line, '\n', ' ');
    std::fprintf(file_.get(), "%s\n", line.c_str());
    std::fflush(file_.get());
  }
  std::vector<std::string> read() {
    std::vector<std::string> lines(1);
    std::rewind(file_.get());
    for (int c = 0; (c = std::fgetc(file_.get())) != EOF;) {
      c == '\n' ? static_cast<void>(lines.emplace_back()) : lines.back().push_back(char(c));
    }
    lines.pop_back();
    return lines;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

/// The library's run, on ranks that are threads. It has the same bits as on processes.
inline Lines library_lines() {
  Lines lines(kHookedRanks);
  comm::launch_threads(kHookedRanks, 1, [&](Context& context, auto world) {
    run_library(context, std::move(world), lines[context.rank]);
  });
  return lines;
}

/// The reader's run, on processes that Gloo connects. Without Gloo the ranks are threads. A line
/// that begins with "!" or "?" says why a rank has stopped.
/// @param patience seconds after which a process is ended
inline Lines hooked_lines(const FourHooks& hooks, unsigned patience) {
  std::vector<Paper> papers(kHookedRanks);
  const auto body = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    const Say say = [&](const std::string& line) { papers[context.rank].write(line); };
    try {
      run_hooks(context, *world, hooks, say);
    } catch (const std::exception& e) {
      say(std::string("?") + e.what());
      throw;
    }
  };
  std::string message;
  if (comm::default_backend() == comm::Backend::gloo) {
    message = launch::run_processes(kHookedRanks, [&](launch::Store& store) {
                alarm(patience);
                comm::run_rank(
                    store, {.threads = 1, .timeout = 10, .transport = comm::Transport::gloo}, body);
              }).message;
  } else {
    try {
      comm::launch_threads(kHookedRanks, 1, body, {.timeout = std::chrono::seconds(10)});
    } catch (const std::exception& e) {
      message = e.what();
    }
  }
  if (message.find("SIGALRM") != message.npos)
    message = fmt::format("the hook has not returned after {} seconds", patience);
  message = message.substr(0, message.find(';'));  // the hints are for users of the library
  Lines lines;
  for (Paper& paper : papers) {
    std::vector<std::string>& of_rank = lines.emplace_back(paper.read());
    if (!message.empty() && (of_rank.empty() || of_rank.back() != "end"))
      of_rank.push_back("?" + message);
  }
  return lines;
}

/// The lines of one rank, put in order.
struct Told {
  struct Hook {
    std::string name, events;
  };
  struct Part {  // a pass
    std::vector<Hook> hooks;
    std::vector<std::string> bytes, results;
  };
  std::vector<Part> parts;
  std::string stop;  // why the rank has stopped
  bool by_verb = false;

  explicit Told(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      if (line == "pass") parts.emplace_back();
      if (line[0] == '!') stop = line.substr(1), by_verb = true;
      if (line[0] == '?' && stop.empty()) stop = line.substr(1);
      if (parts.empty() || line == "pass" || line == "end") continue;
      Part& part = parts.back();
      if (line[0] == '#') part.bytes.push_back(line.substr(1));
      if (line[0] == '~') part.results.push_back(line.substr(1));
      if (line[0] == '@') part.hooks.push_back({line.substr(1), ""});
      if (line[0] == 'U' || line[0] == 'R')
        part.hooks.back().events += (part.hooks.back().events.empty() ? "" : " ") + line;
    }
  }
};

/// What a reader may have overlooked, if this hook did `yours` instead of `right`.
inline std::string hint_for(const std::string& hook, const std::string& yours,
                            const std::string& right) {
  const auto has = [](const std::string& all, const char* event) {
    return (" " + all).find(std::string(" ") + event) != std::string::npos;
  };
  if (yours.find("then it stops: rank") != yours.npos) return {};
  if (hook.starts_with("pre_forward")) return "Forward needs the parameters, and nothing else.";
  if (hook == "post_forward root") {
    return has(right, "R.") ? "No backward follows an evaluation. When is the root discarded?"
                            : "Backward begins with the root, so its parameters stay.";
  }
  if (hook.starts_with("post_forward")) {
    return has(yours, "R.") ? "Backward has not begun, so there is no gradient yet."
                            : "The next block needs the memory.";
  }
  if (hook == "pre_backward root")
    return "The root is unsharded since forward. It needs memory for its gradient, and zeros in "
           "it.";
  if (hook.starts_with("pre_backward")) {
    return has(yours, "U.") ? "An earlier call in this backward may have borrowed the memory."
                            : "The unit was discarded. Its memory holds NaN or another block.";
  }
  if (has(right, "R.") && !has(yours, "R."))
    return "No module needs these parameters now, and the next unit needs the memory.";
  if (!has(right, "RS.") && has(yours, "RS."))
    return "Backward will call this block again, and add to its gradient.";
  if (has(right, "RS.") && !has(yours, "RS."))
    return "The gradient is complete. Which forwards has the unit counted? An evaluation's, too?";
  return has(yours, "RS.") && yours.find("then it stops") == yours.npos
             ? "The reduction does not need the parameters, so they are discarded first."
             : "What must the hook before backward have done?";
}

inline std::string hint_for_number(const std::string& line) {
  const auto has = [&](const char* word) { return line.find(word) != line.npos; };
  if (has("sent")) return "Each gather and each reduction sends bytes.";
  if (has("borrowed")) return "When does a unit need memory for its gradient, and not earlier?";
  if (has("kept")) return "Something is still borrowed after the pass.";
  if (has("NaN")) return "Borrowed memory holds NaN until zero() fills it.";
  return "zero() also removes what an earlier call of the block has added to the gradient.";
}

/// "U.h.0, then ...": the events of a hook, and how the rank stopped after them.
inline std::string with_stop(const std::string& events, const std::string& stop) {
  if (stop.empty()) return events.empty() ? "nothing" : events;
  return (events.empty() ? "" : events + ", ") + "then it stops: " + stop;
}

inline Difference first_difference(const Told& yours, const Told& library) {
  const std::vector<Pass> all = passes();
  for (std::size_t p = 0; p < library.parts.size(); ++p) {
    std::vector<std::string> blocks;
    for (const int call : all[p].calls) blocks.push_back(fmt::format("h.{}", call));
    const std::string pass =
        fmt::format("pass {} ({}, calls {})", p + 1, all[p].training ? "training" : "an evaluation",
                    fmt::join(blocks, " "));
    const Told::Part& right = library.parts[p];
    const Told::Part& part = p < yours.parts.size() ? yours.parts[p] : Told::Part{};
    const bool last = !yours.stop.empty() && p + 1 >= yours.parts.size();
    for (std::size_t h = 0; h < right.hooks.size(); ++h) {
      const bool stops = last && h + 1 >= part.hooks.size();
      const std::string events = h < part.hooks.size() ? part.hooks[h].events : "";
      if (!stops && events == right.hooks[h].events) continue;
      const std::string said = with_stop(events, stops ? yours.stop : "");
      const std::string wanted = with_stop(right.hooks[h].events, "");
      std::string at = right.hooks[h].name;
      at.replace(at.find(' '), 1, " of ");
      return {pass + ", " + at, said, wanted, hint_for(right.hooks[h].name, said, wanted)};
    }
    for (const auto lines : {&Told::Part::bytes, &Told::Part::results}) {
      for (std::size_t i = 0; i < (right.*lines).size(); ++i) {
        const std::string said = i < (part.*lines).size() ? (part.*lines)[i] : yours.stop;
        const std::string& wanted = (right.*lines)[i];
        if (said != wanted) return {pass + ", after it", said, wanted, hint_for_number(said)};
      }
    }
  }
  return {};
}

/// Trains with these hooks and compares. A rank that its own hooks have stopped comes before ranks
/// that have only waited for it.
inline Difference referee(const FourHooks& hooks, const Lines& library, unsigned patience = 30) {
  const Lines yours = hooked_lines(hooks, patience);
  Difference first;
  for (int rank = 0; rank < kHookedRanks; ++rank) {
    const Told told(yours[rank]);
    const Difference found = first_difference(told, Told(library[rank]));
    if (first.where.empty() || (told.by_verb && !found.where.empty())) first = found;
    if (told.by_verb) break;
  }
  return first;
}

}  // namespace lesson
