#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/check.h"
#include "base/platform.h"
#include "launch/rendezvous.h"
#include "support/usage_error.h"

// Tests that the environment says which launcher has started this rank, and that contradictions are
// errors.

namespace nanofsdp::testing {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<launch::Rendezvous> read(const Variables& variables) {
  return launch::rendezvous_from([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables operator+(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

const Variables kMaster{{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "1234"}};
const Variables kByHand = kMaster + Variables{{"RANK", "2"},
                                              {"WORLD_SIZE", "4"},
                                              {"LOCAL_RANK", "1"},
                                              {"LOCAL_WORLD_SIZE", "2"},
                                              {"NANOFSDP_TOKEN", "x"}};

TEST(Environment, SaysNothingWhereNobodyStartedRanks) {
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read(kMaster));
  EXPECT_FALSE(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
}

TEST(Environment, IsReadInEveryLaunchersWords) {
  const Variables families[] = {kByHand,
                                kMaster + Variables{{"OMPI_COMM_WORLD_RANK", "2"},
                                                    {"OMPI_COMM_WORLD_SIZE", "4"},
                                                    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                    {"PMIX_NAMESPACE", "x"}},
                                kMaster + Variables{{"PMI_RANK", "2"},
                                                    {"PMI_SIZE", "4"},
                                                    {"MPI_LOCALRANKID", "1"},
                                                    {"MPI_LOCALNRANKS", "2"},
                                                    {"PMI_KVSNAME", "x"}},
                                kMaster + Variables{{"SLURM_PROCID", "2"},
                                                    {"SLURM_STEP_NUM_TASKS", "4"},
                                                    {"SLURM_LOCALID", "1"},
                                                    {"SLURM_NODEID", "0"},
                                                    {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                                                    {"SLURM_STEP_ID", "0"},
                                                    {"SLURM_JOB_ID", "x"}},
                                kMaster + Variables{{"SLURM_PROCID", "2"},
                                                    {"SLURM_NTASKS", "4"},
                                                    {"SLURM_LOCALID", "1"},
                                                    {"SLURM_NTASKS_PER_NODE", "2"},
                                                    {"SLURM_STEP_ID", "0"},
                                                    {"SLURM_JOB_ID", "x"}}};
  for (const Variables& variables : families) {
    const auto r = read(variables);
    ASSERT_TRUE(r);
    EXPECT_EQ(r->rank, 2);
    EXPECT_EQ(r->size, 4);
    EXPECT_EQ(r->local_rank, 1);
    EXPECT_EQ(r->local_size, 2);
    EXPECT_EQ(r->host, "node7");
    EXPECT_EQ(r->port, 1234);
    EXPECT_EQ(r->token, "x");
    EXPECT_EQ(r->program, program_fingerprint());
    EXPECT_EQ(r->interface, "");
    EXPECT_EQ(r->listener, -1);
  }
}

TEST(Environment, BelievesSlurmOnlyInsideAStep) {
  EXPECT_FALSE(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}));
}

// A step may be smaller than its job: then the job's numbers are wrong for it.
const Variables kStep = kMaster + Variables{{"SLURM_PROCID", "1"},
                                            {"SLURM_STEP_ID", "0"},
                                            {"SLURM_NTASKS", "8"},
                                            {"SLURM_NTASKS_PER_NODE", "8"},
                                            {"SLURM_JOB_ID", "7"}};

TEST(Environment, BelievesTheNumbersOfASlurmStepBeforeThoseOfItsJob) {
  for (int step = 2; step < 9; ++step) {
    const std::string tasks = std::to_string(step);
    const auto r = read(
        kStep + Variables{{"SLURM_STEP_NUM_TASKS", tasks}, {"SLURM_STEP_TASKS_PER_NODE", tasks}});
    EXPECT_EQ(r->size, step);
    EXPECT_EQ(r->local_size, step);
  }
  // A shell that srun has started is a step of one task: it may start ranks of its own.
  EXPECT_FALSE(read(kStep + Variables{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
}

TEST(Environment, KnowsHowManyTasksOfASlurmStepAreOnThisNode) {
  const auto local_sizes = [](const std::string& list, int nodes) {
    std::vector<int> sizes;
    for (int node = 0; node < nodes; ++node) {
      const auto r = read(kStep + Variables{{"SLURM_STEP_NUM_TASKS", "16"},
                                            {"SLURM_NODEID", std::to_string(node)},
                                            {"SLURM_STEP_TASKS_PER_NODE", list}});
      sizes.push_back(r->local_size);
    }
    return sizes;
  };
  using Sizes = std::vector<int>;
  EXPECT_EQ(local_sizes("16", 1), (Sizes{16}));
  EXPECT_EQ(local_sizes("4(x4)", 4), (Sizes{4, 4, 4, 4}));
  EXPECT_EQ(local_sizes("5(x2),3(x2)", 4), (Sizes{5, 5, 3, 3}));
  EXPECT_EQ(local_sizes("1,12,2,1", 4), (Sizes{1, 12, 2, 1}));
  EXPECT_EQ(local_sizes("2(x3),10", 4), (Sizes{2, 2, 2, 10}));
  // From a strange list the number is unknown.
  for (const char* strange : {"", "many", "0", "-1", "17", "(x2)", "99999999999999"}) {
    EXPECT_EQ(local_sizes(strange, 1), (Sizes{0})) << strange;
  }
}

// If Slurm says nothing about the step, the job's number of tasks on each node may be too large.
TEST(Environment, KnowsNotWhereTheRanksOfASmallerStepAre) {
  for (int job = 1; job < 9; ++job) {
    const auto r = read(kStep + Variables{{"SLURM_NTASKS", "3"},
                                          {"SLURM_NODEID", "1"},
                                          {"SLURM_NTASKS_PER_NODE", std::to_string(job)}});
    EXPECT_EQ(r->size, 3);
    EXPECT_EQ(r->local_size, job <= 3 ? job : 0) << job;
  }
}

// With its plugin pmi2, srun sets some of MPICH's variables too, but it does not say in MPICH's
// words how many ranks are here.
TEST(Environment, KnowsSrunEvenIfItSetsMpichsVariables) {
  const Variables pmi{{"PMI_FD", "8"}, {"PMI_JOBID", "7.0"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "4"}};
  const Variables step{{"SLURM_PROCID", "1"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_STEP_NUM_TASKS", "4"},
                       {"SLURM_STEP_TASKS_PER_NODE", "4"},
                       {"SLURM_JOB_ID", "7"}};
  const auto slurms = read(step + pmi);
  EXPECT_EQ(slurms->local_size, 4);
  EXPECT_EQ(slurms->host, "127.0.0.1");
  EXPECT_EQ(slurms->token, "7");
  // MPICH's mpirun starts its ranks in a step that has one task a node.
  const Variables mpich{{"PMI_KVSNAME", "x"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  const auto mpichs = read(kMaster + step + pmi + mpich +
                           Variables{{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}});
  EXPECT_EQ(mpichs->rank, 1);
  EXPECT_EQ(mpichs->size, 4);
  EXPECT_EQ(mpichs->local_size, 2);
  EXPECT_EQ(mpichs->token, "x");
}

TEST(Environment, KnowsWhatMayBeLeftOut) {
  Variables variables = kByHand;
  variables.erase("MASTER_PORT");
  EXPECT_EQ(read(variables)->port, 29500);
  variables.erase("LOCAL_RANK");
  // Equal to the rank, because devices are counted round.
  EXPECT_EQ(read(variables)->local_rank, 2);
  variables.erase("LOCAL_WORLD_SIZE");
  EXPECT_EQ(read(variables)->local_size, 0);
  // If all ranks run on one machine, no address is needed.
  variables.erase("MASTER_ADDR");
  EXPECT_EQ(read(variables + Variables{{"LOCAL_WORLD_SIZE", "4"}})->host, "127.0.0.1");
}

TEST(Environment, LeavesTorchrunsAgentItsPort) {
  EXPECT_EQ(read(kByHand + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}})->port, 1235);
  EXPECT_EQ(read(kByHand + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "False"}})->port, 1234);
}

TEST(Environment, PrefersATokenToTheNameOfTheRun) {
  const Variables run = kByHand + Variables{{"TORCHELASTIC_RUN_ID", "run 7"}};
  EXPECT_EQ(read(run)->token, "x");
  Variables variables = run;
  variables.erase("NANOFSDP_TOKEN");
  EXPECT_EQ(read(variables)->token, "run 7");
  variables["TORCHELASTIC_RUN_ID"] = "none";  // torchrun's name for a run without a name
  EXPECT_TRUE(one_line_with(usage_error([&] { read(variables); }), {"NANOFSDP_TOKEN", "nothing"}));
}

TEST(Environment, TakesPyTorchsNameForTheInterfaceAfterItsOwn) {
  const Variables gloo{{"GLOO_SOCKET_IFNAME", "eth0"}}, own{{"NANOFSDP_IFACE", "eth1"}};
  EXPECT_EQ(read(kByHand + gloo)->interface, "eth0");
  EXPECT_EQ(read(kByHand + gloo + own)->interface, "eth1");
}

// An empty name is an answer. It means the interface that leads to rank 0, even if PyTorch's
// variable names another one.
TEST(Environment, TakesAnEmptyInterfaceForTheOneThatLeadsToRankZero) {
  const Variables gloo{{"GLOO_SOCKET_IFNAME", "eth0"}}, none{{"NANOFSDP_IFACE", ""}};
  EXPECT_EQ(read(kByHand + none)->interface, "");
  EXPECT_EQ(read(kByHand + gloo + none)->interface, "");
  EXPECT_EQ(read(kByHand)->interface, "");
}

TEST(Environment, NamesTheVariableThatIsWrong) {
  const auto expect_refused = [](const char* name, const char* value) {
    const std::string text = usage_error([&] { read(kByHand + Variables{{name, value}}); });
    EXPECT_TRUE(one_line_with(text, {name, value})) << name << "=" << value;
  };
  for (const char* value : {"", "-1", "4", "two", "1.0", " 1", "1 ", "0x1", "99999999999999"}) {
    expect_refused("RANK", value);
  }
  for (const char* value : {"", "-1", "0", "four", "1000001"}) expect_refused("WORLD_SIZE", value);
  for (const char* value : {"", "-1", "2", "first"}) expect_refused("LOCAL_RANK", value);
  for (const char* value : {"", "0", "5", "all"}) expect_refused("LOCAL_WORLD_SIZE", value);
  for (const char* value : {"", "0", "65535", "http"}) expect_refused("MASTER_PORT", value);
}

// A run of one rank needs no launcher, but half of its variables are a mistake all the same.
TEST(Environment, OfOneRankIsReadToo) {
  for (const Variables& rank : {Variables{}, {{"RANK", "1"}}, {{"RANK", "first"}}}) {
    const std::string text = usage_error([&] { read(rank + Variables{{"WORLD_SIZE", "1"}}); });
    EXPECT_TRUE(one_line_with(text, {"RANK", "a number from 0 to 0"})) << text;
  }
}

TEST(Environment, NamesTheVariableThatIsMissing) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "NANOFSDP_TOKEN"}) {
    Variables variables = kByHand;
    variables.erase(name);
    const std::string text = usage_error([&] { read(variables); });
    EXPECT_TRUE(one_line_with(text, {name, "got nothing"}));
  }
}

}  // namespace
}  // namespace nanofsdp::testing
