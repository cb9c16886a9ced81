// What attention was invented for. An encoder reads a sequence, a decoder says it again; both are
// recurrent. In the first model all that the decoder learns of the sequence is the encoder's last
// state, a vector of fixed size (Sutskever et al. 2014, Cho et al. 2014); in the second it looks at
// all states, and chooses where at every step (Bahdanau et al. 2015). The longer the sequence, the
// less of it fits into the vector.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include <attune/nn/attention/additive.h>
#include <attune/nn/embedding.h>
#include <attune/nn/recurrent.h>
#include <attune/ops/arithmetic.h>
#include <attune/ops/loss.h>
#include <attune/ops/shaping.h>
#include <attune/ops/unary.h>
#include <attune/optim/optimizer.h>
#include <attune/optim/schedule.h>

using attune::Var;
using Symbols = std::vector<std::int32_t>;

namespace {

constexpr std::int64_t kAlphabet = 10, kLongest = 20, kBatch = 64;
constexpr std::int64_t kEncoder = 64, kDecoder = 96, kEmbedding = 32;  // widths

class Copier final {
 public:
  Copier(const attune::Scope& scope, bool looks, const attune::InitScheme& init)
      : symbols_(scope / "symbols", kAlphabet + 1, kEmbedding, init),
        encoder_(scope / "encoder", {.in = kEmbedding, .hidden = kEncoder}, init),
        bridge_(scope / "bridge", kEncoder, kDecoder, /*bias=*/true, init),
        decoder_(scope / "decoder", {.in = kEmbedding + kEncoder, .hidden = kDecoder}, init),
        head_(scope / "head", kDecoder, kAlphabet, /*bias=*/true, init) {
    if (looks) {
      attention_.emplace(
          scope / "attention",
          attune::AdditiveAttentionConfig{.decoder = kDecoder, .encoder = kEncoder, .hidden = 64},
          init, /*layer=*/0);
    }
  }

  // source: [kBatch, length] -> logits [kBatch, length, kAlphabet]. The decoder reads what it
  // should have said before, or where it is on its own what it has said.
  Var operator()(const Symbols& source, bool on_its_own, const attune::Pass& pass) const {
    const auto length = static_cast<std::int64_t>(source.size()) / kBatch;
    attune::RecurrentState read = encoder_.start(kBatch);
    const Var memory = encoder_(symbols_(source, {kBatch, length}, pass), read, pass);
    const Var keys = attention_ ? attention_->keys(memory, pass) : Var();
    attune::RecurrentState state{tanh(bridge_(read.hidden, pass)), {}};
    Symbols said(kBatch, kAlphabet);  // the symbol beyond the alphabet: nothing yet
    std::vector<Var> logits;
    for (std::int64_t t = 0; t < length; ++t) {
      const Var context = attention_ ? looked_at(state.hidden, keys, memory, pass) : read.hidden;
      const Var before = symbols_(said, {kBatch}, pass);
      state = decoder_.step(attune::concat({before, context}, 1), state, pass);
      const Var scores = head_(state.hidden, pass);
      logits.push_back(reshape(scores, {kBatch, 1, kAlphabet}));
      for (std::int64_t b = 0; b < kBatch; ++b) {
        const auto row = static_cast<std::size_t>(b), at = static_cast<std::size_t>(b * length + t);
        said[row] = on_its_own ? likeliest(scores.value(), b) : source[at];
      }
    }
    return attune::concat(logits, 1);
  }

 private:
  Var looked_at(const Var& state, const Var& keys, const Var& memory,
                const attune::Pass& pass) const {
    const Var query = reshape(state, {kBatch, 1, kDecoder});
    return reshape(attention_->attend(query, keys, memory, pass).mixed, {kBatch, kEncoder});
  }

  static std::int32_t likeliest(const attune::Array& scores, std::int64_t row) {
    const auto first = scores.data<float>().begin() + row * kAlphabet;
    return static_cast<std::int32_t>(std::max_element(first, first + kAlphabet) - first);
  }

  attune::Embedding symbols_;
  attune::Gru encoder_;
  attune::Linear bridge_;
  attune::Gru decoder_;
  attune::Linear head_;
  std::optional<attune::AdditiveAttention> attention_;
};

// Symbols of a batch, a function of its name and step.
Symbols drawn(const char* name, std::int64_t step, std::int64_t length) {
  const attune::RandomStream stream =
      attune::Randomness{.seed = 1, .step = static_cast<std::uint32_t>(step)}.stream(name);
  Symbols symbols;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(kBatch * length); ++i)
    symbols.push_back(static_cast<std::int32_t>(stream.uniform(i) * kAlphabet));
  return symbols;
}

void train(const Copier& copier, attune::ParameterStore& store, std::int64_t steps) {
  const auto optimizer = attune::make_optimizer({.weight_decay = 0});
  const attune::ScheduleConfig schedule{.lr = 5e-3, .min_lr = 5e-4, .decay_iters = steps};
  attune::Tape tape;
  for (std::int64_t step = 0; step < steps; ++step) {
    tape.clear();
    const Symbols source = drawn("train", step, 1 + step % kLongest);
    const Var logits = copier(source, /*on_its_own=*/false, {.tape = &tape});
    const attune::CrossEntropy loss = attune::cross_entropy(logits, source);
    const Var mean = loss.loss_sum / static_cast<double>(loss.scored);
    optimizer->step(store, tape.backward(mean), learning_rate(schedule, step));
  }
}

// The share of symbols that it says right on its own.
double accuracy(const Copier& copier, std::int64_t length) {
  std::int64_t correct = 0, scored = 0;
  for (std::int64_t batch = 0; batch < 4; ++batch) {
    const Symbols source = drawn("test", batch, length);
    const Var logits = copier(source, /*on_its_own=*/true, {});
    const attune::CrossEntropy found = attune::cross_entropy(logits, source);
    correct += found.correct;
    scored += found.scored;
  }
  return static_cast<double>(correct) / static_cast<double>(scored);
}

}  // namespace

// Arguments: training steps of each model; the seed of the parameters. What is claimed of models
// that have learned needs the steps that stand here; after 150 the difference can be seen.
int main(int argc, char** argv) {
  constexpr std::int64_t kSteps = 2000;
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : kSteps;
  const auto seed = static_cast<std::uint64_t>(argc > 2 ? std::atoll(argv[2]) : 1);
  constexpr std::array<std::int64_t, 5> kLengths = {5, 10, 15, 20, 30};
  std::printf("symbols right, of sequences of length");
  for (const std::int64_t length : kLengths) std::printf("%7lld", static_cast<long long>(length));
  std::array<std::array<double, kLengths.size()>, 2> right{};
  for (const bool looks : {false, true}) {
    std::printf("\n%-37s", looks ? "all states, by additive attention" : "the last state alone");
    std::fflush(stdout);
    attune::ParameterStore store;
    const Copier copier(attune::Scope(store, seed, attune::DType::float32), looks,
                        attune::InitScheme("xavier", 0.1, /*layers=*/1));
    train(copier, store, steps);
    for (std::size_t i = 0; i < kLengths.size(); ++i) {
      right[looks][i] = accuracy(copier, kLengths[i]);
      std::printf("%7.3f", right[looks][i]);
    }
  }
  std::printf("\ntrained on 1 to %lld symbols of %lld, %lld steps; chance %.3f\n",
              static_cast<long long>(kLongest), static_cast<long long>(kAlphabet),
              static_cast<long long>(steps), 1.0 / kAlphabet);

  const auto& [last, all] = right;
  bool holds = all[3] > last[3] + 0.1;  // of length 20
  if (steps >= kSteps) {
    holds = holds && all[3] >= 0.99;
    for (std::size_t i = 1; i < kLengths.size(); ++i) holds = holds && last[i] < last[i - 1];
  }
  if (!holds) std::puts("attention does not make the difference it should");
  return holds ? 0 : 1;
}
