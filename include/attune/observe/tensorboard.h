#pragma once

#include <filesystem>
#include <memory>

#include "attune/train/observer.h"

namespace attune {

// Throws ConfigError in a build that cannot write event files: one that was made where protobuf is
// not.
void require_tensorboard();

// Writes events.out.tfevents.SECONDS.HOST.PID into the directory, for TensorBoard: the scalars of
// metrics.jsonl and of the logs that were asked for, and a histogram of the entropies of all heads
// and of each layer's. A resumed run begins another file, whose first event voids what earlier ones
// have at or beyond its step. Tags: data/README.md. Throws ConfigError as above;
// IoError as LineLog does, from on_start() on.
[[nodiscard]] std::unique_ptr<TrainObserver> make_tensorboard_log(
    const std::filesystem::path& directory);

}  // namespace attune
