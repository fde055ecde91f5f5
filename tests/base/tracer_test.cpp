#include "base/tracer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace nanofsdp {
namespace {

// A wait in the trace names the span that the rank waits for, even if other spans were begun in
// between.
TEST(Tracer, WaitsKnowTheSpanTheyWaitFor) {
  const auto compute = make_compute_stream(Device::cpu, 1);
  const auto gather = make_communication_stream(Device::cpu);
  Tracer tracer;
  tracer.start();
  const std::size_t first = tracer.begin(*gather, Lane::all_gather, "first");
  const Event first_done = tracer.end(*gather, first, 100);
  const std::size_t second = tracer.begin(*gather, Lane::all_gather, "second");
  const Event second_done = tracer.end(*gather, second, 200);
  tracer.wait(*compute, second_done);
  tracer.wait(*compute, first_done);
  tracer.wait(*compute, Event());  // a default event: there is nothing to wait for
  ASSERT_EQ(tracer.spans().size(), 4u);
  EXPECT_EQ(tracer.spans()[1].name, "second");
  EXPECT_EQ(tracer.spans()[1].bytes, 200);
  EXPECT_EQ(tracer.spans()[2].lane, Lane::wait);
  EXPECT_EQ(tracer.spans()[2].waits_for, second);
  EXPECT_EQ(tracer.spans()[3].waits_for, first);
  for (const Span& span : tracer.spans()) {
    EXPECT_LE(span.issued, span.begin);
    EXPECT_LE(span.begin, span.end);
  }
}

TEST(Tracer, RecordsNothingWhileItIsOff) {
  const auto compute = make_compute_stream(Device::cpu, 1);
  Tracer tracer;
  tracer.issue("U.h0");
  EXPECT_EQ(tracer.begin(*compute, Lane::compute, "forward"), 0u);
  tracer.wait(*compute, tracer.end(*compute, 0));
  EXPECT_TRUE(tracer.spans().empty());
  EXPECT_TRUE(tracer.take_order().empty());
  tracer.start();
  tracer.issue("U.h0");
  EXPECT_EQ(tracer.take_order(), std::vector<std::string>{"U.h0"});
  EXPECT_TRUE(tracer.take_order().empty());
}

}  // namespace
}  // namespace nanofsdp
