#include <gtest/gtest.h>

#include <cstddef>
#include <ctime>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "launch/party.h"

// Tests which processes are refused, and what happens to the run.

namespace nanofsdp::testing {
namespace {

// Whether the error between ranks that `action` throws has its cause on another rank.
template <class Action>
bool has_cause_elsewhere(const Action& action) {
  try {
    action();
  } catch (const RankError& error) {
    return error.consequence;
  }
  throw std::logic_error("no error");
}

class Stranger : public ::testing::Test {
 protected:
  // The answer that a process gets which comes to a run of 2 as `r`, changed by `change`.
  std::string heard(const std::function<void(Rendezvous& r)>& change) {
    ::testing::internal::CaptureStderr();
    Party run(2);
    const Store zero(run.of(0));
    Rendezvous r = run.of(1);
    change(r);
    const std::string what = message_of<RankError>([&] { const Store one(r); });
    log_ = ::testing::internal::GetCapturedStderr();
    // The run goes on without it.
    const Store one(run.of(1));
    return what;
  }
  std::string log_;
};

TEST_F(Stranger, HasNotTheToken) {
  const std::string what = heard([](Rendezvous& r) { r.token = "open barley"; });
  EXPECT_NE(what.find("not this run's token (NANOFSDP_TOKEN)"), std::string::npos) << what;
  EXPECT_TRUE(log_.starts_with("nanofsdp: refused 127.0.0.1:")) << log_;
  EXPECT_NE(log_.find("token"), std::string::npos);
  EXPECT_EQ(log_.find("sesame"), std::string::npos);
}

// The test waits for seconds, because it tests a timeout.
TEST_F(Stranger, ExpectsAnotherNumberOfRanks) {
  const std::string what = heard([](Rendezvous& r) { r.size = r.local_size = 3; });
  EXPECT_NE(what.find("it expects 3 ranks, rank 0 expects 2"), std::string::npos) << what;
}

TEST_F(Stranger, ClaimsARankThatIsNone) {
  for (const int rank : {2, 3, 1 << 20}) {
    const std::string what = heard([&](Rendezvous& r) { r.rank = rank; });
    EXPECT_NE(what.find("there is no rank " + number(rank) + " of 2"), std::string::npos) << what;
  }
}

TEST_F(Stranger, ClaimsARankThatIsTaken) {
  ::testing::internal::CaptureStderr();
  Party run(2);
  const Store zero(run.of(0)), one(run.of(1));
  const std::string what = message_of<RankError>([&] { const Store twin(run.of(1)); });
  ::testing::internal::GetCapturedStderr();
  EXPECT_NE(what.find("rank 1 is taken, by 127.0.0.1:"), std::string::npos) << what;
}

// The test waits for seconds, because it tests a timeout.
TEST_F(Stranger, RunsAnotherProgram) {
  const std::string what = heard([](Rendezvous& r) { r.program = 8; });
  EXPECT_NE(what.find("rank 1 runs another program than rank 0"), std::string::npos) << what;
}

// The cause of a refusal is the process that is refused. If rank 0 ends before it lets a rank in,
// the cause is on rank 0.
TEST_F(Stranger, IsTheCauseOfItsRefusal) {
  ::testing::internal::CaptureStderr();
  Party run(2);
  const Store zero(run.of(0));
  Rendezvous r = run.of(1);
  r.token = "open barley";
  EXPECT_FALSE(has_cause_elsewhere([&] { const Store one(r); }));
  ::testing::internal::GetCapturedStderr();
  const Socket listener = launch::listen_on("127.0.0.1", 0);
  r.port = listener.local_port();
  std::thread ends([&] { const Socket rank_1 = launch::accept_on(listener); });
  EXPECT_TRUE(has_cause_elsewhere([&] { const Store one(r); }));
  ends.join();
}

// A process with the token is a rank that the others wait for, so they need not wait any longer.
TEST_F(Stranger, IsARankThatDoesNotFitAndEndsTheRun) {
  for (const bool program : {true, false}) {
    ::testing::internal::CaptureStderr();
    Party run(3);
    Store zero(run.of(0));
    Rendezvous r = run.of(1);
    if (program) r.program = 8;
    if (!program) r.size = r.local_size = 8;
    message_of<RankError>([&] { const Store one(r); });
    ::testing::internal::GetCapturedStderr();
    const std::string what = zero.loss(10s);
    EXPECT_TRUE(what.starts_with("rank 1 was refused: ")) << what;
    Store two(run.of(2));  // the second rank, which comes later
    EXPECT_EQ(two.loss(10s), what);
  }
}

TEST_F(Stranger, DoesNotEndTheRunByAWrongTokenOrATakenRank) {
  ::testing::internal::CaptureStderr();
  Party run(2);
  Store zero(run.of(0)), one(run.of(1));
  for (const bool token : {true, false}) {
    Rendezvous r = run.of(1);
    r.program = 8;
    if (token) r.token = "open barley";
    message_of<RankError>([&] { const Store stranger(r); });
  }
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(zero.loss(100ms) + one.loss(0ms), "");
}

// A process that never sends a word is not a rank, and the run does not miss it.
TEST_F(Stranger, NeedNotAnswerTheRollCall) {
  Party run(2);
  Store zero(run.of(0));
  const Socket mute = launch::connect_to("127.0.0.1", run.of(1).port, 1s);
  const Store one(run.of(1));  // it is accepted after the stranger
  EXPECT_EQ(zero.roll_call(), "");
}

// A port scanner may keep its connections. Rank 0 keeps the newest four that have said nothing.
TEST_F(Stranger, TakesNoDescriptorsFromTheRanks) {
  Party run(2);
  const Store zero(run.of(0));
  std::vector<Socket> mute(20);
  for (Socket& socket : mute) socket = launch::connect_to("127.0.0.1", run.of(1).port, 1s);
  const Store one(run.of(1));  // it is accepted after the strangers
  for (std::size_t i = 0; i < mute.size(); ++i) {
    pollfd closed{.fd = mute[i].descriptor(), .events = POLLIN};
    EXPECT_EQ(poll(&closed, 1, /*milliseconds=*/0), i < 16 ? 1 : 0) << i;
  }
}

TEST_F(Stranger, CostsNoTimeWhileNoDescriptorIsLeft) {
  Party run(2);
  const Store zero(run.of(0));
  const int next = dup(STDERR_FILENO);  // the lowest descriptor that is free
  close(next);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{.rlim_cur = static_cast<rlim_t>(next) + 1, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  const Socket mute = launch::connect_to("127.0.0.1", run.of(1).port, 1s);
  const std::clock_t start = std::clock();  // the time that all threads have computed
  std::this_thread::sleep_for(1s);
  const double computed = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(mute.descriptor(), next);
  EXPECT_LT(computed, 0.3);
  const Store one(run.of(1));
}

TEST_F(Stranger, SpeaksAnotherLanguage) {
  for (const char* text : {"GET / HTTP/1.1\r\n\r\n", "", "2sfn\xff\xff\xff\xff________________"}) {
    ::testing::internal::CaptureStderr();
    Party run(2);
    const Store zero(run.of(0));
    {
      const Socket socket = launch::connect_to("127.0.0.1", run.of(1).port, 1s);
      socket.send(text);
      std::string answer;
      while (*text != '\0' && socket.receive(answer)) {
      }
    }
    const Store one(run.of(1));
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.empty(), *text == '\0') << log;
  }
}

// A pager or Ctrl-S stops stderr, and what reads it may end. Neither may stop rank 0's answers.
TEST_F(Stranger, IsRefusedEvenIfNobodyReadsTheErrors) {
  for (const bool ended : {false, true}) {
    const int errors = dup(STDERR_FILENO);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
    const std::string page(4096, ' ');
    while (!ended && write(ends[1], page.data(), page.size()) > 0) {
    }
    fcntl(ends[1], F_SETFL, 0);
    if (ended) close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    {
      Party run(2);
      const Store zero(run.of(0));
      Rendezvous stranger = run.of(1);
      stranger.token = "open barley";
      stranger.patience = 10s;
      const std::string what = message_of<RankError>([&] { const Store store(stranger); });
      EXPECT_NE(what.find("not this run's token"), std::string::npos) << what;
      const Store one(run.of(1));
    }
    dup2(errors, STDERR_FILENO);
    for (const int end : {errors, ends[1], ended ? -1 : ends[0]}) close(end);
  }
}

}  // namespace
}  // namespace nanofsdp::testing
