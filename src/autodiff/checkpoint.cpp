#include "attune/autodiff/checkpoint.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace attune {
namespace {

// What it takes to run the function again.
struct Checkpoint {
  Tape& tape;
  CheckpointedFunction f;
  std::string path;  // of the module that it runs in
  std::vector<Array> inputs;
  std::vector<char> is_constant;

  // Runs f on the inner tape; `leaves` are its inputs there.
  Var run(Tape& inner, std::vector<Var>& leaves) const {
    const PathGuard guard(&inner, path);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      leaves.push_back(is_constant[i] ? Var(inputs[i]) : inner.leaf(inputs[i]));
    return f(inner, leaves);
  }
};

// Inputs of the record: those of f, then the parameters that it asked for.
void differentiate(const Checkpoint& checkpoint, const Array& dy, InputGradients& dx) {
  Tape& inner = checkpoint.tape.inner();
  std::vector<Var> leaves;
  const Var y = checkpoint.run(inner, leaves);
  Gradients gradients = inner.backward(y, dy, dx.observer());
  auto parameter = static_cast<int>(leaves.size());
  for (Gradients::Entry& entry : gradients.entries()) {
    const auto leaf = std::find_if(leaves.begin(), leaves.end(), [&](const Var& x) {
      return x.tape() != nullptr && x.slot() == entry.slot;
    });
    if (entry.parameter == nullptr && leaf == leaves.end()) continue;  // a leaf of f's own
    const int input = entry.parameter ? parameter++ : static_cast<int>(leaf - leaves.begin());
    if (entry.reached) {
      dx.add(input, std::move(entry.gradient));
    } else {
      dx.none(input);
    }
  }
  inner.clear();
}

}  // namespace

Var checkpoint(Tape& tape, std::span<const Var* const> inputs, CheckpointedFunction f) {
  Checkpoint checkpoint{tape, std::move(f), std::string(tape.path()), {}, {}};
  for (const Var* input : inputs) {
    checkpoint.inputs.push_back(input->value());
    checkpoint.is_constant.push_back(input->tape() == nullptr);
  }
  Tape& inner = tape.inner();
  std::vector<Var> leaves;
  const Var y = checkpoint.run(inner, leaves);
  std::vector<Var> parameters;
  for (const Parameter* parameter : inner.parameters())
    parameters.push_back(tape.parameter(*parameter));
  const Array value = y.value();
  const bool is_constant = y.tape() == nullptr;
  leaves.clear();
  inner.clear();
  if (is_constant) return Var(value);

  std::vector<const Var*> all(inputs.begin(), inputs.end());
  for (const Var& parameter : parameters) all.push_back(&parameter);
  return record("checkpoint", all, value,
                [checkpoint = std::move(checkpoint)](const Array& dy, InputGradients& dx) {
                  differentiate(checkpoint, dy, dx);
                });
}

}  // namespace attune
