#include "attune/train/checkpoint.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/text.h"
#include "attune/train/safetensors.h"

namespace attune::checkpoint_test {

namespace fs = std::filesystem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    std::string name = (fs::temp_directory_path() / "attune-checkpoint-test-XXXXXX").string();
    directory_ = mkdtemp(name.data());
    path_ = directory_ / "checkpoint.safetensors";
  }
  ~CheckpointTest() override { fs::remove_all(directory_); }

  // One line that names the file and holds `reason`; nothing written to model or optimizer.
  void expect_refused(ParameterStore& parameters, Optimizer& optimizer,
                      std::string_view reason) const {
    const std::string hash = parameters.hash();
    const std::int64_t updates = optimizer.updates();
    const std::string state = encode_safetensors({optimizer.state(parameters), {}});
    try {
      Checkpoint(path_).restore(parameters, optimizer);
      ADD_FAILURE() << "restored, expected: " << reason;
    } catch (const IoError& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with(path_.string() + ": ")) << message;
      EXPECT_NE(message.find(reason), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
    EXPECT_EQ(parameters.hash(), hash);
    EXPECT_EQ(optimizer.updates(), updates);
    EXPECT_EQ(encode_safetensors({optimizer.state(parameters), {}}), state);
  }

  [[nodiscard]] TensorFile file() const { return decode_safetensors(read_file(path_), "saved"); }
  void write(const TensorFile& file) const {
    write_file_atomically(path_, encode_safetensors(file));
  }

  fs::path directory_;
  fs::path path_;
};

// A model of two parameters and an optimizer, optionally after some updates.
struct Model {
  ParameterStore parameters;
  std::unique_ptr<Optimizer> optimizer = make_optimizer({});

  explicit Model(double value, int updates = 0, DType dtype = DType::float32) {
    parameters.create("block.0.weight", Array::full({2, 3}, value, dtype));
    parameters.create("head", Array::full({1}, -value, dtype));
    ThreadPool pool(1);
    for (int i = 0; i < updates; ++i) {
      const Array gradients[] = {Array::full({2, 3}, 0.1 * (i + 1), dtype),
                                 Array::full({1}, -0.3, dtype)};
      optimizer->step(parameters, gradients, 1.0, 0.01, pool);
    }
  }
};

CheckpointState state_of(std::int64_t step, std::int64_t updates) {
  CheckpointState state;
  state.step = step;
  state.optimizer_updates = updates;
  state.config_toml = "task = \"copy\"\n";
  state.vocabulary = {"a", "\n", "\"", "\xc3\xa9", ""};
  state.blas_kernel = "Zen";
  state.best_val_loss = 0.1;
  state.counters = {{"skipped_steps", 2}, {"elapsed_seconds", 1.0 / 3}};
  return state;
}

TEST_F(CheckpointTest, StateReadsBackExactly) {
  const Model model(1);
  save_checkpoint(path_, state_of(9, 7), model.parameters, *model.optimizer);
  const Checkpoint checkpoint(path_);
  EXPECT_EQ(checkpoint.state().step, 9);
  EXPECT_EQ(checkpoint.state().optimizer_updates, 7);
  EXPECT_EQ(checkpoint.state().config_toml, "task = \"copy\"\n");
  EXPECT_EQ(checkpoint.state().vocabulary, state_of(9, 7).vocabulary);
  EXPECT_EQ(checkpoint.state().blas_kernel, "Zen");
  EXPECT_EQ(checkpoint.state().best_val_loss, 0.1);
  EXPECT_EQ(checkpoint.state().counters, state_of(9, 7).counters);
}

TEST_F(CheckpointTest, NumbersThatAreNotFiniteReadBack) {
  const Model model(1);
  CheckpointState state = state_of(0, 0);
  state.best_val_loss = kInfinity;
  state.counters = {{"low", -kInfinity}, {"none", std::nan("")}};
  save_checkpoint(path_, state, model.parameters, *model.optimizer);
  const Checkpoint checkpoint(path_);
  EXPECT_EQ(checkpoint.state().best_val_loss, kInfinity);
  EXPECT_EQ(checkpoint.state().counters.at("low"), -kInfinity);
  EXPECT_TRUE(std::isnan(checkpoint.state().counters.at("none")));
}

TEST_F(CheckpointTest, RestoresParametersAndOptimizerBitwise) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Model saved(0.7, 3, dtype);
    save_checkpoint(path_, state_of(3, 3), saved.parameters, *saved.optimizer);
    Model model(5, 0, dtype);
    Checkpoint(path_).restore(model.parameters, *model.optimizer);
    EXPECT_EQ(model.parameters.hash(), saved.parameters.hash());
    EXPECT_EQ(model.optimizer->updates(), 3);
    EXPECT_EQ(encode_safetensors({model.optimizer->state(model.parameters), {}}),
              encode_safetensors({saved.optimizer->state(saved.parameters), {}}));
  }
}

TEST_F(CheckpointTest, RestoresParametersAlone) {
  const Model saved(0.7, 2);
  save_checkpoint(path_, state_of(2, 2), saved.parameters, *saved.optimizer);
  Model model(5);
  Checkpoint(path_).restore(model.parameters);
  EXPECT_EQ(model.parameters.hash(), saved.parameters.hash());
  EXPECT_EQ(model.optimizer->updates(), 0);
}

// What was restored is the model's own: training on does not reach a second restore.
TEST_F(CheckpointTest, RestoringTwiceGivesTheSame) {
  const Model saved(0.7, 1);
  save_checkpoint(path_, state_of(1, 1), saved.parameters, *saved.optimizer);
  const Checkpoint checkpoint(path_);
  Model model(5);
  checkpoint.restore(model.parameters);
  model.parameters[0].writable_value().mutable_data<float>()[0] = 77;
  Model other(6);
  checkpoint.restore(other.parameters);
  EXPECT_EQ(other.parameters.hash(), saved.parameters.hash());
}

TEST_F(CheckpointTest, TensorsCarryTheNamesOfParameters) {
  const Model model(1, 1);
  save_checkpoint(path_, state_of(1, 1), model.parameters, *model.optimizer);
  std::vector<std::string> names;
  for (const auto& [name, array] : file().tensors) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"block.0.weight", "head", "optim.m.block.0.weight",
                                      "optim.m.head", "optim.v.block.0.weight", "optim.v.head"}));
}

TEST_F(CheckpointTest, AParameterMayNotTakeANameOfTheOptimizer) {
  ParameterStore parameters;
  parameters.create("optim.scale", Array::zeros({1}, DType::float32));
  EXPECT_THROW(save_checkpoint(path_, state_of(0, 0), parameters, *make_optimizer({})), ValueError);
  EXPECT_FALSE(fs::exists(path_));
}

// Case B38: a tied table is one parameter, one tensor, one pair of moments.
TEST_F(CheckpointTest, ATiedParameterIsStoredOnceAndStaysTied) {
  ParameterStore saved;
  saved.create("token_embedding.weight", Array::full({2, 2}, 3, DType::float32));
  save_checkpoint(path_, state_of(0, 0), saved, *make_optimizer({}));
  EXPECT_EQ(file().tensors.size(), 3u);
  ParameterStore model;
  const Parameter& embedding =
      model.create("token_embedding.weight", Array::zeros({2, 2}, DType::float32));
  Parameter& head = *model.find("token_embedding.weight");
  Checkpoint(path_).restore(model);
  EXPECT_EQ(embedding.value().to_vector(), std::vector<double>(4, 3.0));
  head.writable_value().mutable_data<float>()[0] = 8;
  EXPECT_EQ(embedding.value().at({0, 0}), 8);
}

// Case B39 (h), (l) and (m).
TEST_F(CheckpointTest, RefusesParametersOfAnotherShape) {
  const Model saved(1);
  save_checkpoint(path_, state_of(0, 0), saved.parameters, *saved.optimizer);
  Model transposed(2);
  transposed.parameters = {};
  transposed.parameters.create("block.0.weight", Array::full({3, 2}, 2, DType::float32));
  transposed.parameters.create("head", Array::full({1}, 2, DType::float32));
  expect_refused(transposed.parameters, *transposed.optimizer,
                 "parameter block.0.weight is float32 [2, 3] but the model's is float32 [3, 2]");
  Model wider(2);
  wider.parameters = {};
  wider.parameters.create("block.0.weight", Array::full({2, 3}, 2, DType::float32));
  wider.parameters.create("head", Array::full({4}, 2, DType::float32));
  expect_refused(wider.parameters, *wider.optimizer,
                 "parameter head is float32 [1] but the model's is float32 [4]");
}

TEST_F(CheckpointTest, RefusesParametersOfAnotherDtype) {
  const Model saved(1, 0, DType::float64);
  save_checkpoint(path_, state_of(0, 0), saved.parameters, *saved.optimizer);
  Model model(2);
  expect_refused(model.parameters, *model.optimizer,
                 "is float64 [2, 3] but the model's is float32");
}

TEST_F(CheckpointTest, RefusesAMissingAndAnExtraParameter) {
  Model model(2, 1);
  save_checkpoint(path_, state_of(1, 1), model.parameters, *model.optimizer);
  const TensorFile good = file();
  for (std::size_t i = 0; i < good.tensors.size(); ++i) {
    TensorFile damaged = good;
    damaged.tensors.erase(damaged.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    write(damaged);
    expect_refused(model.parameters, *model.optimizer, good.tensors[i].first + " is missing");
  }
  const std::pair<const char*, const char*> extra[] = {
      {"block.1.weight", "block.1.weight"},
      {"optim.m.block.1.weight", "optim.m.block.1.weight"},
      {"two\nlines", "two\\x0alines"},
      {"optim.v.two\nlines", "optim.v.two\\x0alines"}};
  for (const auto& [name, said] : extra) {
    TensorFile damaged = good;
    damaged.tensors.emplace_back(name, Array::zeros({1}, DType::float32));
    write(damaged);
    expect_refused(model.parameters, *model.optimizer, said);
  }
}

TEST_F(CheckpointTest, CountersOutsideTheirRangeAreRefused) {
  Model model(2);
  CheckpointState state = state_of(5, 5);
  state.counters = {
      {"low", -2}, {"high", 1e16}, {"endless", kInfinity}, {"none", std::nan("")}, {"good", 3}};
  save_checkpoint(path_, state, model.parameters, *model.optimizer);
  const Checkpoint checkpoint(path_);
  EXPECT_EQ(checkpoint.counter("good", 0, 0), 3);
  EXPECT_EQ(checkpoint.counter("missing", 7, 0), 7);
  EXPECT_EQ(checkpoint.counter("low", 0, -2), -2);
  for (const char* name : {"low", "high", "endless", "none"}) {
    try {
      static_cast<void>(checkpoint.counter(name, 0, -1));
      ADD_FAILURE() << name;
    } catch (const IoError& error) {
      EXPECT_TRUE(std::string_view(error.what())
                      .starts_with(path_.string() + ": metadata counter." + name + " is "))
          << error.what();
    }
  }
}

TEST_F(CheckpointTest, KnowsHowManyNumbersItsParametersHave) {
  Model model(2, 1);
  save_checkpoint(path_, state_of(5, 5), model.parameters, *model.optimizer);
  EXPECT_EQ(Checkpoint(path_).parameter_elements(), 7);
}

TEST_F(CheckpointTest, RefusesMomentsOfAnotherShape) {
  Model model(2, 1);
  save_checkpoint(path_, state_of(1, 1), model.parameters, *model.optimizer);
  TensorFile damaged = file();
  damaged.tensors.back().second = Array::zeros({4}, DType::float32);
  write(damaged);
  expect_refused(model.parameters, *model.optimizer, "optim.v.head");
}

TEST_F(CheckpointTest, RefusesDamagedMetadata) {
  Model model(2);
  save_checkpoint(path_, state_of(5, 5), model.parameters, *model.optimizer);
  const TensorFile good = file();
  for (const auto& [key, value] : good.metadata) {
    if (key.starts_with("counter.")) continue;
    TensorFile damaged = good;
    damaged.metadata.erase(key);
    write(damaged);
    expect_refused(model.parameters, *model.optimizer, key);
  }
  const std::pair<const char*, std::string> bad_values[] = {
      {"format_version", "2"},
      {"format_version", "one"},
      {"step", "-1"},
      {"step", "5.0"},
      {"step", "99999999999999999999"},
      {"optimizer_updates", "6"},  // more updates than steps
      {"best_val_loss", "small"},
      {"vocabulary", "{}"},
      {"vocabulary", "[1]"},
      {"vocabulary", "[[\"a\"]]"},
      {"vocabulary", "[\"a\""},
      {"vocabulary", std::string(1'000'000, '[')},
      {"vocabulary", std::string("[]\0x", 4)},
      {"counter.skipped_steps", "many"},
      {"counter.two\nlines", "many"}};
  for (const auto& [key, value] : bad_values) {
    TensorFile damaged = good;
    damaged.metadata[key] = value;
    write(damaged);
    expect_refused(model.parameters, *model.optimizer, "metadata " + printable(key));
  }
}

TEST_F(CheckpointTest, SaysThatAnotherVersionWroteTheFile) {
  Model model(2);
  save_checkpoint(path_, state_of(0, 0), model.parameters, *model.optimizer);
  TensorFile newer = file();
  newer.metadata["format_version"] = "2";
  write(newer);
  expect_refused(model.parameters, *model.optimizer,
                 "metadata format_version is 2, this program reads 1");
}

TEST_F(CheckpointTest, RefusesAMissingAndATruncatedFile) {  // B39
  EXPECT_THROW(Checkpoint{path_}, IoError);
  EXPECT_THROW(Checkpoint{directory_}, IoError);
  Model model(2);
  save_checkpoint(path_, state_of(0, 0), model.parameters, *model.optimizer);
  fs::resize_file(path_, fs::file_size(path_) - 1);
  expect_refused(model.parameters, *model.optimizer, "lie beyond");
}

// Case B40. The child does what the parent must not: it limits how large its files may grow.
TEST_F(CheckpointTest, AFullDiskLeavesTheOldCheckpoint) {
  const Model model(1, 1);
  save_checkpoint(path_, state_of(1, 1), model.parameters, *model.optimizer);
  const std::string before = read_file(path_);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64, 64};
    setrlimit(RLIMIT_FSIZE, &limit);
    int result = 1;
    try {
      save_checkpoint(path_, state_of(2, 1), model.parameters, *model.optimizer);
    } catch (const IoError&) {
      result = 42;
    }
    _exit(result);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
  EXPECT_EQ(read_file(path_), before);
  EXPECT_FALSE(fs::exists(path_.string() + ".tmp"));
}

// The child saves states in which every number is the step, until it is killed at some moment.
TEST_F(CheckpointTest, AKilledProcessLeavesOneWholeState) {  // B40
  for (int round = 0; round < 8; ++round) {
    fs::remove(path_);
    const pid_t child = fork();
    if (child == 0) {
      for (std::int64_t step = 0;; ++step) {
        ParameterStore parameters;
        parameters.create("a", Array::full({20'000}, static_cast<double>(step), DType::float32));
        parameters.create("b", Array::full({3}, static_cast<double>(step), DType::float32));
        save_checkpoint(path_, state_of(step, 0), parameters, *make_optimizer({}));
      }
    }
    while (!fs::exists(path_)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(700 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);

    const Checkpoint checkpoint(path_);
    ParameterStore parameters;
    parameters.create("a", Array::zeros({20'000}, DType::float32));
    parameters.create("b", Array::zeros({3}, DType::float32));
    checkpoint.restore(parameters);
    const auto step = static_cast<double>(checkpoint.state().step);
    EXPECT_EQ(parameters[0].value().to_vector(), std::vector<double>(20'000, step));
    EXPECT_EQ(parameters[1].value().to_vector(), std::vector<double>(3, step));
  }
}

TEST_F(CheckpointTest, AStaleTemporaryIsReplaced) {  // B40
  std::ofstream(path_.string() + ".tmp") << "left behind";
  const Model model(1);
  save_checkpoint(path_, state_of(0, 0), model.parameters, *model.optimizer);
  EXPECT_EQ(Checkpoint(path_).state().step, 0);
  EXPECT_FALSE(fs::exists(path_.string() + ".tmp"));
}

}  // namespace attune::checkpoint_test
