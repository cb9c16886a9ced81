#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include <attune/autodiff/tape.h>
#include <attune/nn/embedding.h>
#include <attune/nn/linear.h>
#include <attune/observe/gradcheck_suite.h>
#include <attune/ops/arithmetic.h>
#include <attune/ops/loss.h>
#include <attune/ops/matmul.h>
#include <attune/ops/shaping.h>
#include <attune/ops/softmax.h>
#include <attune/ops/unary.h>
#include <attune/optim/optimizer.h>

// An attention of one's own in one file, outside the source tree: additive attention (Bahdanau et
// al. 2015, appendix A.1.2) from the library's operations and layers, checked against finite
// differences in float64 and trained in float32 until it recalls the first token of a sequence.
namespace {

using attune::DType;
using attune::Pass;
using attune::Scope;
using attune::Var;

constexpr std::int64_t kSymbols = 8;
constexpr std::int64_t kTime = 6;
constexpr std::int64_t kModel = 16;
constexpr std::int64_t kBatch = 64;

//   e_j = v . tanh(W q + U k_j)      p = softmax(e)      o = sum_j p_j k_j
class AdditiveAttention final {
 public:
  AdditiveAttention(const Scope& scope, std::int64_t model, const attune::InitScheme& init)
      : query_(scope / "query", model, model, false, init),
        key_(scope / "key", model, model, true, init),
        score_(scope / "score", model, 1, false, init) {}

  // query: [batch, 1, model], keys: [batch, key, model] -> [batch, model]
  Var operator()(const Var& query, const Var& keys, const Pass& pass) const {
    const std::int64_t batch = keys.shape()[0];
    const Var scores = score_(tanh(query_(query, pass) + key_(keys, pass)), pass);
    const Var weights = softmax(reshape(scores, {batch, 1, -1}));
    return reshape(matmul(weights, keys), {batch, -1});
  }

 private:
  attune::Linear query_, key_, score_;
};

// Tokens with learned positions, the last one asks, the answer is a token.
class Recall final {
 public:
  Recall(attune::ParameterStore& store, DType dtype)
      : root_(store, /*seed=*/1, dtype),
        tokens_(root_ / "token", kSymbols, kModel, init_),
        positions_(root_ / "position", kTime, kModel, init_),
        attention_(root_ / "attention", kModel, init_),
        head_(root_ / "head", kModel, kSymbols, true, init_, attune::Role::head) {}

  // tokens: [batch, time] -> logits [batch, symbols]
  Var operator()(std::span<const std::int32_t> tokens, const Pass& pass) const {
    const auto batch = static_cast<std::int64_t>(tokens.size()) / kTime;
    const std::vector<std::int32_t> places = attune::Positions::range(0, kTime).values;
    const Var x = tokens_(tokens, {batch, kTime}, pass) + positions_(places, {kTime}, pass);
    return head_(attention_(slice(x, 1, kTime - 1, kTime), x, pass), pass);
  }

 private:
  attune::InitScheme init_{"xavier", 0.5, 1};
  Scope root_;
  attune::Embedding tokens_, positions_;
  AdditiveAttention attention_;
  attune::Linear head_;
};

struct Questions {
  std::vector<std::int32_t> tokens;   // [batch, time], drawn evenly
  std::vector<std::int32_t> answers;  // [batch], the first token of each

  Questions(std::uint64_t seed, std::uint32_t step, std::int64_t batch) {
    const attune::RandomStream stream = attune::Randomness{seed, step}.stream("questions");
    for (std::int64_t b = 0; b < batch; ++b) {
      attune::RandomCursor cursor(stream, static_cast<std::uint32_t>(b));
      for (std::int64_t t = 0; t < kTime; ++t)
        tokens.push_back(static_cast<std::int32_t>(cursor.below(kSymbols)));
      answers.push_back(tokens[tokens.size() - kTime]);
    }
  }
};

bool gradients_are_right() {
  attune::ParameterStore store;
  const Recall model(store, DType::float64);
  const Questions questions(2, 0, 5);
  const attune::GradcheckReport report = attune::gradcheck_parameters(
      store,
      [&](const Pass& pass) {
        return cross_entropy(model(questions.tokens, pass), questions.answers).loss_sum;
      },
      {}, {});
  std::printf("%s", to_text(report).c_str());
  return report.passed();
}

// Share of right answers to questions drawn with another seed.
double trained_accuracy() {
  attune::ParameterStore store;
  const Recall model(store, DType::float32);
  const auto optimizer = attune::make_optimizer({.kind = "adam", .weight_decay = 0});
  attune::Tape tape;
  for (std::uint32_t step = 0; step < 400; ++step) {
    const Questions questions(3, step, kBatch);
    tape.clear();
    const auto loss = cross_entropy(model(questions.tokens, {.tape = &tape}), questions.answers);
    optimizer->step(store, tape.backward(loss.loss_sum / static_cast<double>(kBatch)), 0.01);
    if (step % 100 == 0) {
      std::printf("step %3u  loss %.4f nats\n", step, loss.nats / static_cast<double>(kBatch));
    }
  }
  const Questions fresh(4, 0, 1000);
  const auto result = cross_entropy(model(fresh.tokens, {}), fresh.answers);
  return static_cast<double>(result.correct) / static_cast<double>(result.scored);
}

}  // namespace

int main() {
  if (!gradients_are_right()) return 1;
  const double accuracy = trained_accuracy();
  std::printf("first token recalled: %.3f of 1000 fresh sequences\n", accuracy);
  if (accuracy <= 0.95) {
    std::puts("additive attention did not learn to recall the first token");
    return 1;
  }
  return 0;
}
