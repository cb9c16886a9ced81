#include <cmath>

#include "cli/run_binary.h"

// Checkpoints through scripts/read_checkpoint.py, a reader and writer of the format that shares no
// code with this one.
namespace attune::cli_test::python_checkpoint_test {

// Runs a command in a shell; its exit code.
int shell(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

// A Python that has NumPy; empty: there is none.
std::string python() {
  for (const char* name : {"python3", "/usr/bin/python3"}) {
    if (shell(std::string(name) + " -c 'import numpy' 2>/dev/null") == 0) return name;
  }
  return "";
}

class PythonCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    if (python_.empty()) GTEST_SKIP() << "no Python with NumPy here";
    ASSERT_EQ(space_.run(tiny_run("run")).code, 0);
  }

  // What a program prints that has load(), save() and numpy.
  [[nodiscard]] std::string print(const std::string& program) const {
    space_.write("program.py", "import numpy\nfrom read_checkpoint import load, save\n" + program);
    EXPECT_EQ(
        shell("cd '" + space_.path().string() + "' && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='" +
              ATTUNE_SOURCE_DIR + "/scripts' " + python_ + " program.py >printed 2>errors"),
        0)
        << space_.read("errors");
    return space_.read("printed");
  }

  Workspace space_;
  std::string python_ = python();
};

// The hash as data/README.md tells it, over what Python read.
TEST_F(PythonCheckpoint, EveryBitOfTheWeightsIsReadThere) {
  const std::string hash = print(R"(
value = 0xcbf29ce484222325
def add(data):
    global value
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
arrays, metadata = load("run/checkpoint.safetensors")
for name, array in arrays.items():
    if name.startswith("optim."): continue
    add(name.encode())
    for extent in array.shape: add(extent.to_bytes(8, "little"))
    add(array.tobytes())
print(f"{value:016x}", end="")
)");
  EXPECT_EQ(hash, space_.hash("run"));
}

// All weights zero: every token is as likely as any other.
TEST_F(PythonCheckpoint, WhatIsWrittenThereLoadsHere) {
  const double uniform = std::stod(print(R"(
import json, math
arrays, metadata = load("run/checkpoint.safetensors")
save("zero.safetensors", {name: numpy.zeros_like(array) for name, array in arrays.items()}, metadata)
print(repr(math.log(len(json.loads(metadata["vocabulary"])))))
)"));
  const Result result = space_.run({"eval", "zero.safetensors", "--eval-iters=2", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_NEAR(json.at("val_loss").get<double>(), uniform, 1e-6);
  EXPECT_EQ(json.at("step"), 10);
}

// Arrays in another order, a header spelled in another way, the same numbers.
TEST_F(PythonCheckpoint, ARunGoesOnBitwiseFromAFileWrittenThere) {
  Words half = tiny_run("half") + Words{"--lr-decay-iters=10"};
  half[10] = "--max-iters=5";
  ASSERT_EQ(space_.run(half).code, 0);
  const std::string before = space_.read("half/checkpoint.safetensors");
  (void)print(R"(
path = "half/checkpoint.safetensors"
arrays, metadata = load(path)
save(path, dict(reversed(arrays.items())), dict(reversed(metadata.items())))
)");
  EXPECT_NE(space_.read("half/checkpoint.safetensors"), before);
  const Result rest = space_.run({"train", "--out-dir=half", "--resume", "--max-iters=10"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  expect_same_run(space_, "half", "run");
}

}  // namespace attune::cli_test::python_checkpoint_test
