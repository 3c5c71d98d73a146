// SPDX-License-Identifier: Apache-2.0
// The command line as its users meet it: build/rooftile run as a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "rooftile/cli/output.h"
#include "rooftile/ops/op_def.h"
#include "tests/stub_driver/stub.h"
#include "tests/support/scoped_env.h"

namespace rooftile::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::ScopedEnv;

struct Outcome {
  int status = -1;
  std::string out, err;
  std::vector<json> lines() const {
    std::vector<json> parsed;
    std::istringstream text(out);
    for (std::string line; std::getline(text, line);) parsed.push_back(json::parse(line));
    return parsed;
  }
};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Cli : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rooftile_cli_XXXXXX";
    dir_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  Outcome rooftile(const std::string& arguments) const {
    const std::string out = dir_ + "/out", err = dir_ + "/err";
    const std::string command = std::string(ROOFTILE_BINARY_DIR) + "/rooftile " + arguments + " >" +
                                out + " 2>" + err + " </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
  }

  std::string dir_;
};

TEST_F(Cli, HelpNamesEveryVerb) {
  const Outcome help = rooftile("--help");
  EXPECT_EQ(help.status, 0);
  for (const char* verb : {"check", "bench", "calibrate", "ops", "explain", "doctor", "version"})
    EXPECT_THAT(help.out, HasSubstr(verb));
}

TEST_F(Cli, UsageErrorsAreOneDiagOnStandardErrorAndStatus2) {
  for (const char* arguments :
       {"", "fly", "check --sett smoke", "check --rung 9", "check no_such_op", "ops no_such_op",
        "bench --set huge", "explain", "check --target tpu", "bench gemm --case M=1,N",
        "bench --device tpu", "calibrate --device gpu0", "check softmax --repeat 1",
        "check softmax --seeds 1", "precompile", "precompile /tmp/x --target cpu"}) {
    const Outcome outcome = rooftile(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_THAT(outcome.err, StartsWith("error[RT-M003]: ")) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("fix:")) << arguments;
  }
}

TEST_F(Cli, VersionAsJson) {
  const Outcome outcome = rooftile("version --json -");
  EXPECT_EQ(outcome.status, 0);
  const std::vector<json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].contains("version"));
  EXPECT_FALSE(lines[0]["commit"].get<std::string>().empty());
}

TEST_F(Cli, JsonGoesToAFileWhenOneIsNamed) {
  const Outcome outcome = rooftile("version --json " + dir_ + "/v.jsonl");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, StartsWith("rooftile "));
  EXPECT_TRUE(json::parse(read_file(dir_ + "/v.jsonl")).contains("version"));
}

TEST_F(Cli, AFileThatCannotBeWrittenIsAnError) {
  const Outcome outcome = rooftile("version --json " + dir_ + "/no/such/folder/v.jsonl");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("RT-M001"));
}

TEST_F(Cli, OpsListsEveryOperatorAndShowsContracts) {
  const Outcome list = rooftile("ops --json -");
  EXPECT_EQ(list.status, 0);
  const std::vector<json> lines = list.lines();
  ASSERT_EQ(lines.size(), all_ops().size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["op"], all_ops()[i].name);
    EXPECT_FALSE(lines[i]["summary"].get<std::string>().empty());
    EXPECT_FALSE(lines[i]["kernels"].empty()) << all_ops()[i].name;
    EXPECT_FALSE(lines[i]["dtypes"].empty()) << all_ops()[i].name;
  }
  for (const OpDef& op : all_ops()) {
    const Outcome page = rooftile("ops " + op.name);
    EXPECT_EQ(page.status, 0) << op.name;
    for (const ArgDef& arg : op.args) EXPECT_THAT(page.out, HasSubstr(arg.name)) << op.name;
    EXPECT_THAT(page.out, HasSubstr("Tolerance")) << op.name;
  }
}

TEST_F(Cli, DoctorSaysWhatIsThereAndWhatIsNot) {
  const Outcome outcome = rooftile("doctor --json -");
  std::set<std::string> found;
  for (const json& line : outcome.lines()) {
    found.insert(line["what"]);
    EXPECT_FALSE(line["detail"].get<std::string>().empty()) << line;
  }
  for (const char* what : {"processor", "AVX-512", "AMX bf16", "C++ compiler", "kernel cache",
                           "oneDNN", "OpenBLAS", "CUDA driver", "NVRTC", "GPU kernels"})
    EXPECT_TRUE(found.count(what)) << what;
}

// With the stub driver: every GPU is listed, and each that is not used says why.
TEST_F(Cli, DoctorExplainsEveryGpu) {
  const auto with_script = [this](const std::string& script) {
    ScopedEnv driver("ROOFTILE_CUDA_DRIVER", testing_support::stub_path());
    ScopedEnv text("ROOFTILE_STUB_SCRIPT", script);
    std::map<std::string, json> by_name;
    for (const json& line : rooftile("doctor --json -").lines()) by_name[line["what"]] = line;
    return by_name;
  };
  auto mixed = with_script("devices=9.0,8.0,9.0 prohibited=2");
  EXPECT_EQ(mixed["CUDA driver"]["state"], "ok");
  EXPECT_THAT(mixed["CUDA driver"]["detail"].get<std::string>(), HasSubstr("CUDA 13.0; 3 GPUs"));
  EXPECT_EQ(mixed["GPU 0"]["state"], "ok");
  EXPECT_THAT(mixed["GPU 0"]["detail"].get<std::string>(), HasSubstr("132 SMs, 141 GB"));
  EXPECT_EQ(mixed["GPU 1"]["state"], "off");
  EXPECT_THAT(mixed["GPU 1"]["detail"].get<std::string>(), HasSubstr("compute capability is 8.0"));
  EXPECT_THAT(mixed["GPU 2"]["detail"].get<std::string>(), HasSubstr("prohibited"));

  auto mismatch = with_script("fail=Init:1:803");
  EXPECT_EQ(mismatch["CUDA driver"]["state"], "absent");
  EXPECT_THAT(mismatch["CUDA driver"]["detail"].get<std::string>(),
              HasSubstr("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"));

  auto old = with_script("version=12040");
  if (old["NVRTC"]["state"] != "absent") {
    EXPECT_EQ(old["NVRTC"]["state"], "broken");
    EXPECT_THAT(old["NVRTC"]["detail"].get<std::string>(), HasSubstr("update the driver"));
  }
}

TEST_F(Cli, DoctorFailsWithoutACompiler) {
  setenv("ROOFTILE_CXX", "/no/such/compiler", 1);
  const Outcome outcome = rooftile("doctor");
  unsetenv("ROOFTILE_CXX");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("absent"));
}

TEST_F(Cli, CheckOfOneResultRunsThatOne) {
  if (find_op("softmax") == nullptr) GTEST_SKIP() << "no softmax in this build";
  const Outcome all = rooftile("check softmax --rung 1 --json -");
  EXPECT_EQ(all.status, 0) << all.err;
  ASSERT_FALSE(all.lines().empty());
  const std::string id = all.lines()[1]["id"];
  const Outcome one = rooftile("check " + id + " --json -");
  EXPECT_EQ(one.status, 0) << one.err;
  ASSERT_EQ(one.lines().size(), 1u);
  EXPECT_EQ(one.lines()[0]["id"], id);
  EXPECT_EQ(rooftile("check softmax/interp/cpu/bf16/T77").status, 2);
}

TEST_F(Cli, CheckOfACaseOfOnesOwn) {
  if (find_op("softmax") == nullptr) GTEST_SKIP() << "no softmax in this build";
  const Outcome outcome =
      rooftile("check softmax --rung 1 --json - --case \"T=3 V=21 dtype=f32\" --case \"T=1 V=2\"");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  ASSERT_EQ(outcome.lines().size(), 2u);
  EXPECT_EQ(outcome.lines()[0]["case"], "T=3 V=21 dtype=f32");
  const Outcome open = rooftile("check softmax --case T=3");
  EXPECT_EQ(open.status, 2);
  EXPECT_THAT(open.err, HasSubstr("V"));
}

TEST_F(Cli, ExplainShowsTheTileProgram) {
  if (find_op("softmax") == nullptr) GTEST_SKIP() << "no softmax in this build";
  const Outcome outcome = rooftile("explain softmax --shape \"T=4 V=64\" --dtype f32 --stage tile");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("load"));
  EXPECT_EQ(rooftile("explain softmax --shape T=4").status, 2);
}

TEST_F(Cli, WithoutAGpuItIsSaidOnceAndClearly) {
  setenv("ROOFTILE_CUDA_DRIVER", "/no/such/driver.so", 1);
  for (const char* arguments : {"check softmax --target sm90", "bench softmax --device cuda",
                                "calibrate --device cuda", "report --device cuda --phase decode"}) {
    const Outcome outcome = rooftile(arguments);
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("error[RT-R004]: ")) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("/no/such/driver.so")) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
  unsetenv("ROOFTILE_CUDA_DRIVER");
}

TEST_F(Cli, ExplainShowsAGpuKernelStageByStage) {
  if (find_op("softmax") == nullptr) GTEST_SKIP() << "no softmax in this build";
  const Outcome outcome =
      rooftile("explain softmax --shape \"T=4 V=64\" --dtype f32 --target sm90 --json -");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::set<std::string> stages;
  for (const json& line : outcome.lines()) {
    stages.insert(line["stage"]);
    EXPECT_GT(line["lines"], 0) << line["stage"];
  }
  EXPECT_EQ(stages, (std::set<std::string>{"tile", "scheduled", "lanes", "text", "host"}));
}

TEST_F(Cli, EmulatedKernelsAreCheckedUnderSeveralOrders) {
  if (find_op("softmax") == nullptr) GTEST_SKIP() << "no softmax in this build";
  const Outcome outcome =
      rooftile("check softmax/kernel:rows/sm90-emulated/bf16/T3_V7 --seeds 3 --json -");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  ASSERT_EQ(outcome.lines().size(), 1u);
  EXPECT_EQ(outcome.lines()[0]["target"], "sm90-emulated");
}

TEST(Table, AlignsColumnsAndNumbers) {
  Table table({"name", "us"});
  table.row({"a", "1.5"});
  table.row({"long name", "12.5"});
  EXPECT_EQ(table.str(), "name       us\na           1.5\nlong name  12.5");
}

}  // namespace
}  // namespace rooftile::cli
