#pragma once

#include <functional>
#include <span>

#include "attune/autodiff/tape.h"

namespace attune {

// What checkpoint() runs. It records on the tape it is given, reads parameters through that tape,
// and computes the same, bit for bit, each time it is called; it may be called after the caller has
// returned. `inputs` are those of checkpoint(), on that tape.
using CheckpointedFunction = std::function<Var(Tape& tape, std::span<const Var> inputs)>;

// y = f(inputs), of which the tape keeps the inputs alone. The backward pass runs f again, records
// it on a tape of its own and differentiates that: memory for one more forward pass (gradient
// checkpointing, Chen et al. 2016). Values and gradients are bitwise those of f run on the tape
// itself. Observers of the tape see f's operations each time it runs.
[[nodiscard]] Var checkpoint(Tape& tape, std::span<const Var* const> inputs,
                             CheckpointedFunction f);

}  // namespace attune
