#pragma once

#include <filesystem>
#include <string>

#include "attune/autodiff/tape.h"
#include "attune/train/step_observer.h"

namespace attune {

struct GraphOptions {
  // A node for every record of the tape and one for every parameter; false: one for each visit of a
  // module, with the ops that ran there and the parameters that they read first.
  bool every_op = false;
};

// What a tape has recorded as a graph in the DOT language of Graphviz (`dot -Tsvg graph.dot`).
// Nodes lie in boxes nested by module path ("block.0" around "block.0.attention"); edges are
// values, from the op that made them to those that read them, with their shapes. Constants do not
// appear. A module that runs again after others have run is a node of its own each time, so the
// graph has no cycles.
[[nodiscard]] std::string to_dot(const Tape& tape, const GraphOptions& options = {});

// Writes the graph of the first training step to a file (--dot): of the first shard of the first
// micro-batch, once its forward pass is recorded.
class GraphFile final : public StepObserver, public GradientObserver {
 public:
  GraphFile(std::filesystem::path file, GraphOptions options)
      : file_(std::move(file)), options_(options) {}

  [[nodiscard]] GradientObserver* gradients(StepPlace place) override;
  // Throws IoError.
  void on_output_gradients(const Tape& tape, const RecordView& record,
                           std::span<const Array> dy) override;

 private:
  std::filesystem::path file_;
  GraphOptions options_;
  bool is_written_ = false;
};

}  // namespace attune
