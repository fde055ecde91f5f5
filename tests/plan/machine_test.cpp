#include "plan/machine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "base/check.h"

namespace nanofsdp::plan {
namespace {

const std::string kNumbers = R"(kind = cpu
memory = 16e9
memory_bandwidth = 30e9   # bytes/s; measured
cores = 2
products_bfloat16 = 1e11
products_float32=2e11
flops = 1.5e10
product_half_width = 16
attention = 5e10
attention_half_length = 48

kernel_time = 1e-6
launch_time = 0
node_ranks = 8
node_bandwidth = 2e10
node_latency = 1e-5
network_bandwidth = 1e9
network_latency = 1e-4
network_oversubscription = 2
)";
const std::string kFitted = R"([fitted] to bench   # on this computer
	product_efficiency = 0.5
memory_efficiency = 1
network_efficiency = 0.25
overlap_slowdown = 1.5
)";
const std::string kText = "# A laptop.\n" + kNumbers + kFitted;

TEST(Machine, IsRead) {
  const Machine m = parse_machine(kText, "m.txt");
  EXPECT_EQ(m.kind, Machine::Kind::cpu);
  EXPECT_EQ(m.memory, 16e9);
  EXPECT_EQ(m.memory_bandwidth, 30e9);
  EXPECT_EQ(m.cores, 2);
  EXPECT_EQ(m.products_bfloat16, 1e11);
  EXPECT_EQ(m.products_float32, 2e11);
  EXPECT_EQ(m.flops, 1.5e10);
  EXPECT_EQ(m.product_half_width, 16);
  EXPECT_EQ(m.attention, 5e10);
  EXPECT_EQ(m.attention_half_length, 48);
  EXPECT_EQ(m.kernel_time, 1e-6);
  EXPECT_EQ(m.launch_time, 0);
  EXPECT_EQ(m.node_ranks, 8);
  EXPECT_EQ(m.node_bandwidth, 2e10);
  EXPECT_EQ(m.node_latency, 1e-5);
  EXPECT_EQ(m.network_bandwidth, 1e9);
  EXPECT_EQ(m.network_latency, 1e-4);
  EXPECT_EQ(m.network_oversubscription, 2);
  EXPECT_EQ(m.product_efficiency, 0.5);
  EXPECT_EQ(m.memory_efficiency, 1);
  EXPECT_EQ(m.network_efficiency, 0.25);
  EXPECT_EQ(m.overlap_slowdown, 1.5);
  EXPECT_EQ(m.fitted_to, "to bench");
}

std::string error_of(const std::string& text) {
  try {
    parse_machine(text, "m.txt");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = kText;
  return text.replace(text.find(from), from.size(), to);
}

TEST(Machine, SaysWhatIsWrong) {
  const auto expect = [](const std::string& text, const std::string& fault) {
    EXPECT_EQ(error_of(text),
              fmt::format("machine file, {}; data/machines/h100.txt shows how it is "
                          "written, in which units",
                          fault));
  };
  expect(with("cores = 2", "cores 2"), "m.txt:5: expected name = value, got 'cores 2'");
  expect(with("cores", "corse"), "m.txt:5: expected a name of Machine, got 'corse'");
  expect(with("flops = 1.5e10\n", "cores = 3\n"), "m.txt:8: expected cores only once, got 'cores'");
  expect(with("cpu", "tpu"), "m.txt:2: expected kind = gpu or cpu, got 'tpu'");
  for (const char* wrong : {"0.5", "", "two", "2 cores", "nan", "inf", "1e999", "-1"}) {
    expect(
        with("cores = 2", fmt::format("cores = {}", wrong)),
        fmt::format("m.txt:5: expected cores = a number at least 1 and at most 1000000, got '{}'",
                    wrong));
  }
  expect(with("memory_bandwidth = 30e9", "memory_bandwidth = 0"),
         "m.txt:4: expected memory_bandwidth = a number at least 1000000 and at most 1e+24, "
         "got '0'");
  // These are in the wrong units: gigabytes, and microseconds.
  expect(with("memory = 16e9", "memory = 16"),
         "m.txt:3: expected memory = a number at least 1000000 and at most 1e+24, got '16'");
  expect(with("node_latency = 1e-5", "node_latency = 10"),
         "m.txt:17: expected node_latency = a number at least 0 and at most 1, got '10'");
  expect(
      with("product_efficiency = 0.5", "product_efficiency = 1.01"),
      "m.txt:22: expected product_efficiency = a number at least 0.01 and at most 1, got '1.01'");
  expect(with("kind = cpu\n", ""), "m.txt: expected a line kind = ..., got 'none'");
  expect(with("network_efficiency = 0.25\n", ""),
         "m.txt: expected a line network_efficiency = ..., got 'none'");
  expect(with("flops = ", "flops = 1e300  # "),
         "m.txt:8: expected flops = a number at least 1000000 and at most 1e+24, got '1e300'");
  expect("", "m.txt: expected a line kind = ..., got 'none'");
}

TEST(Machine, SaysWhatWasFitted) {
  const std::string hint = "; data/machines/h100.txt shows how it is written, in which units";
  EXPECT_EQ(error_of(with("[fitted] to bench", "[fitted]")),
            "machine file, m.txt:21: expected [fitted] to what, got '[fitted]'" + hint);
  EXPECT_EQ(error_of(with("[fitted] to bench", "")),
            "machine file, m.txt:22: expected product_efficiency below the line [fitted], got "
            "'product_efficiency'" +
                hint);
  EXPECT_EQ(error_of(kFitted + kNumbers),
            "machine file, m.txt:7: expected memory above the line [fitted], got 'memory'" + hint);
}

TEST(Machine, KnowsAttentionKernelsByName) {
  const Machine m = parse_machine(with("cores", "attention:flash9 = 3e12\ncores"), "m.txt");
  EXPECT_EQ(m.attentions, (std::map<std::string, double>{{"flash9", 3e12}}));
  EXPECT_NE(error_of(with("cores", "flops:flash9 = 3e12\ncores")).find("a name of Machine"),
            std::string::npos);
  EXPECT_NE(error_of(with("cores", "attention:flash9 = 3\ncores")).find("at least 1000000"),
            std::string::npos);
}

TEST(Machine, IsFoundByNameOrPath) {
  for (const char* name : {"a100-40", "a100-80", "h100", "h100-96", "h200"}) {
    const Machine m = find_machine(name);
    EXPECT_EQ(m.kind, Machine::Kind::gpu);
    EXPECT_EQ(m.node_ranks, 8);
    const std::string path = fmt::format("{}/data/machines/{}.txt", NANOFSDP_SOURCE_DIR, name);
    EXPECT_EQ(find_machine(path).memory_bandwidth, m.memory_bandwidth);
  }
  EXPECT_GT(find_machine("h200").memory_bandwidth, find_machine("h100").memory_bandwidth);
  EXPECT_GT(find_machine("h100").memory_bandwidth, find_machine("h100-96").memory_bandwidth);
  try {
    find_machine("h1000");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "machine 'h1000': expected a text file, or one that is built in: a100-40, "
                 "a100-80, h100, h100-96, h200, got no such file");
  }
}

}  // namespace
}  // namespace nanofsdp::plan
