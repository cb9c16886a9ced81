#include <filesystem>
#include <map>

#include "attune/core/file.h"
#include "attune/train/checkpoint.h"
#include "attune/train/safetensors.h"
#include "fuzz.h"

namespace attune::fuzz {
namespace {

// "key=value" up to each NUL.
std::map<std::string, std::string> metadata_of(std::string_view bytes) {
  std::map<std::string, std::string> metadata;
  while (!bytes.empty()) {
    const std::string_view pair = bytes.substr(0, bytes.find('\0'));
    bytes.remove_prefix(std::min(pair.size() + 1, bytes.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    metadata.emplace(pair.substr(0, equals), pair.substr(std::min(equals + 1, pair.size())));
  }
  return metadata;
}

// The bytes that a model without parameters saves.
std::string saved(const CheckpointState& state) {
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("attune-fuzz-" + std::to_string(getpid()) + ".safetensors");
  save_checkpoint(path, state, ParameterStore(), *make_optimizer({}));
  std::string bytes = read_file(path);
  std::filesystem::remove(path);
  return bytes;
}

CheckpointState state_of(std::string_view bytes) {
  return Checkpoint(MemoryFile(bytes).path()).state();
}

void read(std::string_view bytes) {
  CheckpointState state;
  try {
    state = state_of(bytes);
  } catch (const IoError& error) {
    require_one_line(error);
    return;
  }
  const std::string written = saved(state);
  const CheckpointState again = state_of(written);
  require(again.step == state.step && again.optimizer_updates == state.optimizer_updates &&
              again.config_toml == state.config_toml && again.vocabulary == state.vocabulary &&
              again.blas_kernel == state.blas_kernel,
          "the state of a checkpoint reads back");
  require(saved(again) == written, "every number of a checkpoint reads back");
}

}  // namespace
}  // namespace attune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attune;
  std::string bytes;
  try {
    bytes = encode_safetensors(
        {.tensors = {}, .metadata = fuzz::metadata_of(fuzz::text_of(data, size))});
  } catch (const ValueError&) {  // not UTF-8
    return 0;
  }
  fuzz::read(bytes);
  return 0;
}
