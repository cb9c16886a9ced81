#include "attune/train/options.h"
#include "fuzz.h"

namespace attune::fuzz {
namespace {

// As `attune train --config` reads it: the document's task decides what it is applied to.
RunConfig read(std::string_view toml, DataFile& data) {
  const std::string task = task_in_toml(toml, "input");
  RunConfig config = RunConfig::defaults_for(task.empty() ? "copy" : task);
  apply_toml(config, toml, "input", &data);
  return config;
}

void require_reads_back(const RunConfig& config, const DataFile& data) {
  const std::string dumped = to_toml(config, &data);
  RunConfig again = RunConfig::defaults_for("text");
  DataFile data_again;
  apply_toml(again, dumped, "what was dumped", &data_again);
  require(to_toml(again, &data_again) == dumped, "a configuration that was dumped reads back");
  require(changed_options(config, again).empty(), "every option reads back");
  require(data_again.bytes == data.bytes && data_again.sha256 == data.sha256,
          "the data reads back");
}

}  // namespace
}  // namespace attune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace attune;
  try {
    DataFile data;
    const RunConfig config = fuzz::read(fuzz::text_of(input, size), data);
    try {
      fuzz::require_reads_back(config, data);
    } catch (const Error&) {
      fuzz::require(false, "what was read can be dumped and read");
    }
    const RunConfig resolved = config.resolved();
    fuzz::require_reads_back(resolved, data);
    fuzz::require(to_toml(resolved.resolved(), &data) == to_toml(resolved, &data),
                  "nothing is left to resolve");
  } catch (const ConfigError&) {
  }
  return 0;
}
