// Heads that talk. Items have a row, a column and a colour; the question is the colour of one item,
// named by row and column. A head of width 2 can tell rows apart, or columns, on a circle, and
// hardly both: two heads find the items of the row and those of the column, and none finds the one
// that is in both. Heads that mix their scores before the softmax add the two up, and do (Shazeer
// et al. 2020); mixing weights behind it comes too late. A head of twice the width needs no help.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <attune/nn/embedding.h>
#include <attune/nn/multi_head_attention.h>
#include <attune/ops/arithmetic.h>
#include <attune/ops/loss.h>
#include <attune/ops/shaping.h>
#include <attune/optim/optimizer.h>
#include <attune/optim/schedule.h>

using attune::TalkingHeads;
using attune::Var;

namespace {

constexpr std::int64_t kSide = 5, kItems = kSide * kSide, kColours = 8, kBatch = 64, kModel = 32;

struct Questions {
  std::vector<std::int32_t> row, column, colour;  // of each item: [kBatch, kItems]
  std::vector<std::int32_t> asked_row, asked_column, answer;
};

// A function of its name and step.
Questions drawn(const char* name, std::uint32_t step) {
  const attune::RandomStream stream = attune::Randomness{.seed = 1, .step = step}.stream(name);
  Questions drawn;
  for (std::uint32_t b = 0; b < kBatch; ++b) {
    attune::RandomCursor cursor(stream, b);
    for (std::int32_t i = 0; i < kItems; ++i) {
      drawn.row.push_back(i / kSide);
      drawn.column.push_back(i % kSide);
      drawn.colour.push_back(static_cast<std::int32_t>(cursor.below(kColours)));
    }
    const auto item = static_cast<std::int32_t>(cursor.below(kItems));
    drawn.asked_row.push_back(item / kSide);
    drawn.asked_column.push_back(item % kSide);
    drawn.answer.push_back(drawn.colour[b * kItems + static_cast<std::size_t>(item)]);
  }
  return drawn;
}

class Finder final {
 public:
  Finder(const attune::Scope& scope, std::int64_t head_dim, TalkingHeads talking,
         const attune::InitScheme& init)
      : row_(scope / "row", kSide, kModel, init),
        column_(scope / "column", kSide, kModel, init),
        colour_(scope / "colour", kColours, kModel, init),
        no_positions_(attune::make_positional_encoding("none", scope, {}, init)),
        attention_(scope / "attention",
                   {.model = kModel,
                    .heads = 2,
                    .head_dim = head_dim,
                    .value_dim = 8,
                    .mask = attune::Mask::none(),
                    .talking_heads = talking},
                   *no_positions_, init, /*layer=*/0),
        head_(scope / "head", kModel, kColours, /*bias=*/true, init) {}

  // -> [kBatch, 1, kColours]
  Var operator()(const Questions& of, const attune::Pass& pass) const {
    const attune::Shape items{kBatch, kItems}, question{kBatch, 1};
    const Var memory = row_(of.row, items, pass) + column_(of.column, items, pass) +
                       colour_(of.colour, items, pass);
    const Var asked = row_(of.asked_row, question, pass) + column_(of.asked_column, question, pass);
    return head_(attention_(asked, memory, {}, pass), pass);
  }

 private:
  attune::Embedding row_;
  attune::Embedding column_;
  attune::Embedding colour_;
  std::unique_ptr<attune::PositionalEncoding> no_positions_;
  attune::MultiHeadAttention attention_;
  attune::Linear head_;
};

// The share of questions that a model answers right after training.
double trained_accuracy(std::uint64_t seed, std::int64_t head_dim, TalkingHeads talking) {
  attune::ParameterStore store;
  const Finder finder(attune::Scope(store, seed, attune::DType::float32), head_dim, talking,
                      attune::InitScheme("xavier", 0.3, /*layers=*/1));
  constexpr std::uint32_t kSteps = 1000;
  const attune::ScheduleConfig schedule{
      .lr = 1e-2, .min_lr = 1e-3, .warmup_iters = 50, .decay_iters = kSteps};
  const auto optimizer = attune::make_optimizer({.weight_decay = 0});
  attune::Tape tape;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    tape.clear();
    const Questions questions = drawn("train", step);
    const Var logits = finder(questions, {.tape = &tape, .training = true});
    const Var loss = attune::cross_entropy(logits, questions.answer).loss_sum;
    optimizer->step(store, tape.backward(loss / kBatch), learning_rate(schedule, step));
  }
  double correct = 0, scored = 0;
  for (std::uint32_t batch = 0; batch < 16; ++batch) {
    const Questions questions = drawn("test", batch);
    const auto found = attune::cross_entropy(finder(questions, {}), questions.answer);
    correct += static_cast<double>(found.correct);
    scored += static_cast<double>(found.scored);
  }
  return correct / scored;
}

}  // namespace

// Argument: the number of seeds.
int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 3;
  const auto mean_of = [&](const char* name, std::int64_t head_dim, TalkingHeads talking) {
    std::printf("%-46s", name);
    double sum = 0;
    for (int seed = 1; seed <= seeds; ++seed) {
      const double right = trained_accuracy(static_cast<std::uint64_t>(seed), head_dim, talking);
      std::printf("  %.3f", right);
      std::fflush(stdout);
      sum += right;
    }
    std::puts("");
    return sum / seeds;
  };
  std::printf("colour of one of %lld items: answers right, by seed; chance %.3f\n",
              static_cast<long long>(kItems), 1.0 / kColours);
  const double silent = mean_of("2 heads of width 2", 2, TalkingHeads::none);
  const double before = mean_of("  that mix scores before the softmax", 2, TalkingHeads::before);
  const double after = mean_of("  that mix weights after it", 2, TalkingHeads::after);
  const double wide = mean_of("2 heads of width 4", 4, TalkingHeads::none);
  const bool holds = before > 0.95 && before > silent + 0.1 && before > after + 0.1 && wide > 0.95;
  if (!holds) std::puts("talking does not make the difference it should");
  return holds ? 0 : 1;
}
