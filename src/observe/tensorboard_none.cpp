#include "attune/core/error.h"
#include "attune/observe/tensorboard.h"

// Of a build without protobuf; with it tensorboard.cpp stands in place of this file.
namespace attune {

void require_tensorboard() {
  throw ConfigError(
      "--tensorboard: this program was built without protobuf, expected a build where CMake finds "
      "it (Debian: libprotobuf-dev and protobuf-compiler)");
}

std::unique_ptr<TrainObserver> make_tensorboard_log(const std::filesystem::path&) {
  require_tensorboard();
  return nullptr;
}

}  // namespace attune
