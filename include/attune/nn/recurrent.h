#pragma once

#include <cstdint>
#include <string>

#include "attune/nn/pass.h"
#include "attune/nn/scope.h"

namespace attune {

// What a recurrent cell remembers of the tokens that it has read.
struct RecurrentState {
  Var hidden;  // [batch, hidden]: what the cell shows
  Var cell;    // [batch, hidden]: what an LSTM keeps to itself; null in other cells
};

// Reads a sequence token by token into a state of fixed size. All of them start from W x + b, which
// asks for no earlier token, so project() does it for a whole sequence in one product. Bias vectors
// do not decay; maps of several gates lie in one matrix, gate below gate, each of which starts as
// one of them alone would. Does not read the mask of a pass: sequences of a batch are as long as
// each other. Throws ShapeError for other widths.
class RecurrentCell {
 public:
  virtual ~RecurrentCell() = default;

  // Before the first token: zeros.
  [[nodiscard]] virtual RecurrentState start(std::int64_t batch) const = 0;
  // x: [..., in] -> [..., gates * hidden]
  [[nodiscard]] virtual Var project(const Var& x, const Pass& pass) const = 0;
  // The rest of a step. projected: [batch, gates * hidden]
  [[nodiscard]] virtual RecurrentState advance(const Var& projected, const RecurrentState& before,
                                               const Pass& pass) const = 0;

  // Reads one token. x: [batch, in]
  [[nodiscard]] RecurrentState step(const Var& x, const RecurrentState& before,
                                    const Pass& pass) const;
  // Reads a sequence from `state`, which becomes the one after its last token; without one, from
  // the start. x: [batch, time, in] -> what the cell shows after each token [batch, time, hidden]
  [[nodiscard]] Var operator()(const Var& x, RecurrentState& state, const Pass& pass) const;
  [[nodiscard]] Var operator()(const Var& x, const Pass& pass) const;
};

struct RecurrentConfig {
  std::int64_t in = 128;      // width of a token
  std::int64_t hidden = 128;  // width of the state
};

// What every cell has: the maps of a token, in one matrix, and those of the state.
class RecurrentMaps final {
 public:
  // All `gates` read the token; `state_gates` of them, the first ones, also the state before it.
  RecurrentMaps(const Scope& scope, const RecurrentConfig& config, std::int64_t gates,
                std::int64_t state_gates, const InitScheme& init);

  void set_bias(const Array& value);  // [gates * hidden]; zeros before
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::int64_t width() const;           // of the state
  [[nodiscard]] Var zeros(std::int64_t batch) const;  // [batch, hidden]
  // x: [..., in] -> [..., gates * hidden]
  [[nodiscard]] Var project(const Var& x, const Pass& pass) const;
  // hidden: [batch, hidden] -> [batch, state_gates * hidden]
  [[nodiscard]] Var of_state(const Var& hidden, const Pass& pass) const;

 private:
  std::string path_;
  const Parameter& input_;
  Parameter& bias_;
  const Parameter& hidden_;
};

// h_t = tanh(W x_t + b + U h_{t-1})                                       (Elman 1990)
// Parameters: input.weight W [hidden, in], input.bias b [hidden], hidden.weight U [hidden, hidden].
class Rnn final : public RecurrentCell {
 public:
  Rnn(const Scope& scope, const RecurrentConfig& config, const InitScheme& init);
  [[nodiscard]] RecurrentState start(std::int64_t batch) const override {
    return {maps_.zeros(batch), {}};
  }
  [[nodiscard]] Var project(const Var& x, const Pass& pass) const override {
    return maps_.project(x, pass);
  }
  [[nodiscard]] RecurrentState advance(const Var& projected, const RecurrentState& before,
                                       const Pass& pass) const override;

 private:
  RecurrentMaps maps_;
};

// Long short-term memory (Hochreiter & Schmidhuber 1997) with a forget gate (Gers et al. 2000), the
// gates in the order input, forget, candidate, output:
//   i, f, o = sigmoid(W x_t + b + U h_{t-1})      g = tanh(W x_t + b + U h_{t-1})
//   c_t = f c_{t-1} + i g                         h_t = o tanh(c_t)
// The bias of the forget gate starts at 1, so that a new cell keeps what it has (Gers et al. 2000;
// Jozefowicz et al. 2015); the others at 0. Parameters: input.weight W [4 hidden, in], input.bias b
// [4 hidden], hidden.weight U [4 hidden, hidden].
class Lstm final : public RecurrentCell {
 public:
  Lstm(const Scope& scope, const RecurrentConfig& config, const InitScheme& init);
  [[nodiscard]] RecurrentState start(std::int64_t batch) const override {
    return {maps_.zeros(batch), maps_.zeros(batch)};
  }
  [[nodiscard]] Var project(const Var& x, const Pass& pass) const override {
    return maps_.project(x, pass);
  }
  [[nodiscard]] RecurrentState advance(const Var& projected, const RecurrentState& before,
                                       const Pass& pass) const override;

 private:
  RecurrentMaps maps_;
};

// Gated recurrent unit (Cho et al. 2014), the maps in the order reset, update, candidate:
//   r, z = sigmoid(W x_t + b + U h_{t-1})         g = tanh(W x_t + b + V (r h_{t-1}))
//   h_t = z h_{t-1} + (1 - z) g
// The reset gate acts before the product V, as in the paper; cuDNN and PyTorch apply it after.
// Parameters: input.weight W [3 hidden, in], input.bias b [3 hidden], hidden.weight U [2 hidden,
// hidden], candidate.weight V [hidden, hidden].
class Gru final : public RecurrentCell {
 public:
  Gru(const Scope& scope, const RecurrentConfig& config, const InitScheme& init);
  [[nodiscard]] RecurrentState start(std::int64_t batch) const override {
    return {maps_.zeros(batch), {}};
  }
  [[nodiscard]] Var project(const Var& x, const Pass& pass) const override {
    return maps_.project(x, pass);
  }
  [[nodiscard]] RecurrentState advance(const Var& projected, const RecurrentState& before,
                                       const Pass& pass) const override;

 private:
  RecurrentMaps maps_;
  const Parameter& candidate_;
};

}  // namespace attune
