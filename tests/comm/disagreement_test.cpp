#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/operation.h"
#include "comm/rank_data.h"
#include "support/ranks.h"

// Tests ranks that disagree, ranks that do not come, and operands that do not fit: each gives one
// error with names in it.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using namespace std::chrono_literals;

// The text of the error that ends the run. It must come before the timeout.
template <class Body>
std::string error_of(Backend backend, int world_size, const Body& body, RankOptions options = {}) {
  const auto start = std::chrono::steady_clock::now();
  std::string text = "no error";
  try {
    run_ranks(backend, world_size, body, options);
  } catch (const RankError& e) {
    text = e.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, RankOptions{}.timeout / 2) << text;
  return text;
}

void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
  }
}

class Disagreement : public ::testing::TestWithParam<Backend> {
 protected:
  // Rank `odd_one_out` of 3 makes one call, and the others another one. The error must name both.
  void expect_named(const std::string& usual, const std::string& odd, bool odd_one_out_is_odd,
                    const std::function<void(Context&, Communicator&, bool odd)>& call) {
    const int odd_rank = odd_one_out_is_odd ? 1 : 2;
    const std::string text = error_of(GetParam(), 3, [&](Context& context, Communicator& world) {
      world.barrier(*context.compute);
      call(context, world, context.rank == odd_rank);
    });
    expect_contains(text, {"ranks disagree", "called " + usual,
                           "rank " + std::to_string(odd_rank) + " called " + odd});
  }
};

TEST_P(Disagreement, OnTheOperationIsNamed) {
  expect_named(
      "all_gather 2 of 4 float32 a rank for unit h.0",
      "reduce_scatter 2 (sum) of 4 float32 a rank for unit h.1", true,
      [](Context& context, Communicator& world, bool odd) {
        std::vector<float> part(4), whole(12);
        if (odd) {
          world
              .reduce_scatter(*context.gather, view(whole), view(part), ReduceOp::sum,
                              {.unit = "h.1"})
              .synchronize();
        } else {
          world.all_gather(*context.gather, view(part), view(whole), {.unit = "h.0"}).synchronize();
        }
      });
}

TEST_P(Disagreement, OnTheCountIsNamed) {
  expect_named("all_gather 2 of 4 float32", "all_gather 2 of 100000 float32", false,
               [](Context& context, Communicator& world, bool odd) {
                 std::vector<float> part(odd ? 100000 : 4), whole(3 * part.size());
                 world.all_gather(*context.gather, view(part), view(whole)).synchronize();
               });
}

TEST_P(Disagreement, OnTheDtypeIsNamed) {
  expect_named("reduce_scatter 2 (sum) of 4 float32", "reduce_scatter 2 (sum) of 4 bfloat16", true,
               [](Context& context, Communicator& world, bool odd) {
                 std::vector<float> part(4), whole(12);
                 std::vector<bfloat16> half_part(4), half(12);
                 world.reduce_scatter(*context.compute, odd ? view(half) : view(whole),
                                      odd ? view(half_part) : view(part), ReduceOp::sum);
               });
}

TEST_P(Disagreement, OnTheReductionIsNamed) {
  expect_named("reduce_scatter 2 (sum)", "reduce_scatter 2 (average)", false,
               [](Context& context, Communicator& world, bool odd) {
                 std::vector<float> part(4), whole(12);
                 world.reduce_scatter(*context.compute, view(whole), view(part),
                                      odd ? ReduceOp::average : ReduceOp::sum);
               });
}

TEST_P(Disagreement, OnTheRootIsNamed) {
  expect_named("broadcast 2 from rank 0", "broadcast 2 from rank 1", true,
               [](Context& context, Communicator& world, bool odd) {
                 std::vector<float> x(4);
                 world.broadcast(*context.compute, view(x), odd ? 1 : 0);
               });
}

TEST_P(Disagreement, OnTheUnitIsNamed) {
  expect_named("all_gather 2 of 4 float32 a rank for unit h.3",
               "all_gather 2 of 4 float32 a rank for unit h.2", false,
               [](Context& context, Communicator& world, bool odd) {
                 std::vector<float> part(4), whole(12);
                 world.all_gather(*context.compute, view(part), view(whole),
                                  {.unit = odd ? "h.2" : "h.3"});
               });
}

// The lines of the error if all ranks make six calls, and then `odd` makes another call than the
// others.
std::vector<std::string> lines_of_disagreement(Backend backend, int world_size, int odd) {
  const std::string text =
      error_of(backend, world_size, [&](Context& context, Communicator& world) {
        std::vector<float> part(4), whole(static_cast<std::size_t>(4 * world_size));
        for (const char* unit : {"root", "h.0", "h.1"}) {
          world.all_gather(*context.gather, view(part), view(whole), {.unit = unit}).synchronize();
        }
        world
            .reduce_scatter(*context.gather, view(whole), view(part), ReduceOp::sum,
                            {.unit = "h.1"})
            .synchronize();
        world.broadcast(*context.gather, view(part), 1).synchronize();
        world.barrier(*context.gather).synchronize();
        if (context.rank == odd) {
          world.barrier(*context.gather, {.unit = "the end"}).synchronize();
        } else {
          world.all_gather(*context.gather, view(part), view(whole), {.unit = "h.2"}).synchronize();
        }
      });
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_P(Disagreement, ShowsTheLastFiveCallsOfBothRanks) {
  const std::string common =
      ": ... > all_gather 3 of 4 float32 a rank for unit h.1 > "
      "reduce_scatter 4 (sum) of 4 float32 a rank for unit h.1 > "
      "broadcast 5 from rank 1 of 4 float32 a rank > barrier 6 > ";
  for (const auto& [world_size, odd] : {std::pair(2, 1), {3, 0}, {3, 1}, {3, 2}}) {
    std::vector<std::string> lines = lines_of_disagreement(GetParam(), world_size, odd);
    ASSERT_EQ(lines.size(), 3u) << ::testing::PrintToString(lines);
    // The error may come from any rank. It tells its own call first.
    const std::string odd_line =
        "  rank " + std::to_string(odd) + common + "barrier 7 for unit the end";
    if (lines[1] != odd_line) std::swap(lines[1], lines[2]);
    EXPECT_EQ(lines[1], odd_line);
    EXPECT_EQ(lines[2].substr(8), common + "all_gather 7 of 4 float32 a rank for unit h.2");
    EXPECT_NE(lines[2][7], odd_line[7]) << "not two ranks";
  }
}

// An all-reduce consists of two calls, and both have its unit.
TEST_P(Disagreement, ShowsForWhichUnitBothHalvesOfAnAllReduceWere) {
  const std::string text = error_of(GetParam(), 2, [](Context& context, Communicator& world) {
    std::vector<float> x(4);
    world.all_reduce(*context.compute, view(x), ReduceOp::sum, {.unit = "h.1"}).synchronize();
    world.barrier(*context.compute, {.unit = context.rank == 0 ? "a" : "b"}).synchronize();
  });
  const std::string common =
      ": reduce_scatter 1 (sum) of 2 float32 a rank for unit h.1 > "
      "all_gather 2 of 2 float32 a rank for unit h.1 > barrier 3 for unit ";
  expect_contains(text, {"\n  rank 0" + common + "a", "\n  rank 1" + common + "b"});
}

TEST_P(Disagreement, ShowsTheFewCallsThatThereWere) {
  const std::string text = error_of(GetParam(), 2, [](Context& context, Communicator& world) {
    world.barrier(*context.compute);
    world.barrier(*context.compute, {.unit = context.rank == 0 ? "a" : "b"});
  });
  expect_contains(text, {"\n  rank 0: barrier 1 > barrier 2 for unit a",
                         "\n  rank 1: barrier 1 > barrier 2 for unit b"});
}

// The error names ranks by their numbers in the run, not by their places in the group.
TEST_P(Disagreement, InAGroupNamesTheRanksOfTheRun) {
  const std::string text = error_of(GetParam(), 4, [](Context& context, Communicator& world) {
    const auto half = world.split(context.rank / 2);
    const bool odd = context.rank == 3;
    half->barrier(*context.compute, {.unit = odd ? "b" : "a"}).synchronize();
    world.barrier(*context.compute).synchronize();  // no rank leaves before it has the error
  });
  expect_contains(text, {"\n  rank 2: barrier 1 for unit a", "\n  rank 3: barrier 1 for unit b"});
}

TEST_P(Disagreement, ARankThatDoesNotComeShowsTheCallsOfTheOneThatWaits) {
  const std::string late = error_of(GetParam(), 2,
                                    [](Context& context, Communicator& world) {
                                      for (const char* unit : {"a", "b", "c", "d", "e"}) {
                                        world.barrier(*context.compute, {.unit = unit});
                                      }
                                      if (context.rank == 1) std::this_thread::sleep_for(600ms);
                                      world.barrier(*context.compute, {.unit = "f"});
                                    },
                                    {.timeout = 200ms});
  expect_contains(late, {"rank 0 waited 200 ms in vain for rank 1 in barrier 6 for unit f\n"
                         "  rank 0: ... > barrier 2 for unit b > barrier 3 for unit c > barrier 4 "
                         "for unit d > barrier 5 for unit e > barrier 6 for unit f"});
}

// The test waits for seconds, because it tests a timeout.
TEST_P(Disagreement, OnTheNumberOfCallsIsATimeoutOrALostRank) {
  const std::string late = error_of(GetParam(), 2,
                                    [](Context& context, Communicator& world) {
                                      if (context.rank == 1) std::this_thread::sleep_for(600ms);
                                      try {
                                        world.barrier(*context.compute, {.unit = "the end"});
                                      } catch (const CommError& error) {
                                        if (context.rank == 0) {
                                          EXPECT_EQ(error.kind, CommError::Kind::timeout);
                                        }
                                        throw;
                                      }
                                    },
                                    {.timeout = 200ms});
  expect_contains(late, {"rank 0 waited 200 ms in vain for rank 1 in barrier 1 for unit the end"});

  const std::string gone = error_of(GetParam(), 2, [](Context& context, Communicator& world) {
    if (context.rank == 0) world.barrier(*context.compute);
  });
  expect_contains(gone, {"rank 0 lost rank 1", "in barrier 1"});
}

TEST_P(Disagreement, ARankThatThrowsIsTheCauseThatIsTold) {
  for (int rank = 0; rank < 3; ++rank) {
    const std::string text = error_of(GetParam(), 3, [&](Context& context, Communicator& world) {
      std::vector<float> part(1000), whole(3000);
      for (int i = 0; i < 5; ++i) {
        if (i == 3 && context.rank == rank) throw std::runtime_error("the disk is full");
        world.all_gather(*context.gather, view(part), view(whole)).synchronize();
      }
    });
    expect_contains(text, {"the disk is full"});
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Disagreement, ::testing::ValuesIn(backends()),
                         [](const auto& info) { return name_of(info.param); });

// A name of any length ends within the call's 32 bytes for its unit. Errors read it up to its zero.
TEST(Operation, KeepsTheBeginningOfALongName) {
  for (std::size_t length = 0; length <= 70; ++length) {
    std::string name;
    while (name.size() < length) name += static_cast<char>('a' + name.size() % 26);
    const comm::Operation operation =
        comm::operation_of(comm::Operation::Kind::barrier, {}, {.unit = name});
    std::string want = name.substr(0, 31);
    want.resize(32);
    EXPECT_EQ(std::string(operation.unit.begin(), operation.unit.end()), want);
  }
}

TEST(Operands, ThatDoNotFitAreRefused) {
  run_ranks(Backend::local, 2, [](Context& context, Communicator& world) {
    std::vector<float> four(4), seven(7), eight(8);
    std::vector<std::int32_t> whole_numbers(8);
    Stream& stream = *context.compute;
    const Tensor x = view(eight);
    EXPECT_THROW(world.all_gather(stream, view(four), view(seven)), ShapeError);
    EXPECT_THROW(world.all_gather(stream, Tensor(four.data(), {4}, DType::int32), x), ShapeError);
    EXPECT_THROW(world.all_gather(stream, x.slice(1 - world.rank(), 4), x), ShapeError);
    EXPECT_THROW(world.reduce_scatter(stream, x, x.slice(2, 4), ReduceOp::sum), ShapeError);
    const Tensor ints(whole_numbers.data(), {8}, DType::int32);
    EXPECT_THROW(world.all_reduce(stream, ints, ReduceOp::sum), ShapeError);
    EXPECT_THROW(world.all_reduce(stream, view(seven), ReduceOp::sum), ShapeError);
    EXPECT_THROW(world.all_reduce(stream, x.slice(0, 6), view(seven), ReduceOp::sum), ShapeError);
    EXPECT_THROW(world.all_reduce(stream, view(four), x, ReduceOp::sum), ShapeError);
    // A float32 sum of bfloat16 numbers has memory of its own, and the other way there is none.
    std::vector<float> memory(16);
    const Tensor halves(memory.data(), {8}, DType::bfloat16), sum = view(memory);
    EXPECT_THROW(world.reduce_scatter(stream, halves, sum.slice(0, 4), ReduceOp::sum), ShapeError);
    EXPECT_THROW(world.reduce_scatter(stream, halves, sum.slice(2, 4), ReduceOp::sum), ShapeError);
    EXPECT_THROW(world.all_reduce(stream, halves, sum.slice(0, 8), ReduceOp::sum), ShapeError);
    EXPECT_THROW(world.reduce_scatter(stream, x, halves.slice(0, 4), ReduceOp::sum), ShapeError);
    EXPECT_THROW(world.all_gather(stream, halves.slice(0, 4), x), ShapeError);
    EXPECT_THROW(world.broadcast(stream, x, 2), ShapeError);
    EXPECT_THROW(world.broadcast(stream, x, -1), ShapeError);
    EXPECT_EQ(world.traffic(), Traffic());  // a refused call does not count
    world.barrier(stream);                  // so the ranks still agree
  });
}

}  // namespace
}  // namespace nanofsdp::testing
