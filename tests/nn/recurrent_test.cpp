#include "attune/nn/recurrent.h"

#include <functional>
#include <memory>

#include "attune/ops/shaping.h"
#include "nn/attention_test.h"

namespace attune::recurrent_test {

constexpr std::int64_t kBatch = 2, kTime = 5, kIn = 3, kHidden = 7;
constexpr RecurrentConfig kConfig{.in = kIn, .hidden = kHidden};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// A cell under test and the state of the naive loop beside it.
template <class Cell>
struct Layer {
  Layer() : cell(bench.root / "cell", kConfig, bench.init) { randomize(bench.store, 1); }
  Bench bench;
  Cell cell;
  Array x = random_array({kBatch, kTime, kIn}, 1);
};

// What the cell shows after each token where step(x, h, c) makes of h and c those of the next one.
Row read_by_hand(const Array& x, const std::function<void(const Row& x, Row& h, Row& c)>& step) {
  Row shown;
  for (std::int64_t b = 0; b < kBatch; ++b) {
    Row h(kHidden, 0.0), c(kHidden, 0.0);
    for (std::int64_t t = 0; t < kTime; ++t) {
      step(row_of(x, b, t), h, c);
      append(shown, h);
    }
  }
  return shown;
}

TEST(Recurrent, RnnEqualsItsFormula) {
  Layer<Rnn> layer;
  const Row expected = read_by_hand(layer.x, [&](const Row& x, Row& h, Row&) {
    const Row before = h;
    for (std::size_t u = 0; u < kHidden; ++u) {
      h[u] = std::tanh(mapped(layer.bench, "cell.input", x)[u] +
                       mapped(layer.bench, "cell.hidden", before)[u]);
    }
  });
  const Var y = layer.cell(layer.x, {});
  EXPECT_EQ(to_string(y.shape()), "[2, 5, 7]");
  expect_near(y.value(), expected, 1e-14);
}

TEST(Recurrent, LstmEqualsItsFormula) {
  Layer<Lstm> layer;
  const Row expected = read_by_hand(layer.x, [&](const Row& x, Row& h, Row& c) {
    Row a = mapped(layer.bench, "cell.input", x);
    add_to(a, 1, mapped(layer.bench, "cell.hidden", h));
    for (std::size_t u = 0; u < kHidden; ++u) {
      const double in = logistic(a[u]), forget = logistic(a[u + kHidden]);
      const double candidate = std::tanh(a[u + 2 * kHidden]), out = logistic(a[u + 3 * kHidden]);
      c[u] = forget * c[u] + in * candidate;
      h[u] = out * std::tanh(c[u]);
    }
  });
  expect_near(layer.cell(layer.x, {}).value(), expected, 1e-14);
}

TEST(Recurrent, GruEqualsItsFormula) {
  Layer<Gru> layer;
  const Row expected = read_by_hand(layer.x, [&](const Row& x, Row& h, Row&) {
    const Row input = mapped(layer.bench, "cell.input", x);
    const Row gates = mapped(layer.bench, "cell.hidden", h);
    Row kept = h;
    for (std::size_t u = 0; u < kHidden; ++u) kept[u] *= logistic(input[u] + gates[u]);
    const Row candidate = mapped(layer.bench, "cell.candidate", kept);
    for (std::size_t u = 0; u < kHidden; ++u) {
      const double update = logistic(input[u + kHidden] + gates[u + kHidden]);
      h[u] = update * h[u] + (1 - update) * std::tanh(input[u + 2 * kHidden] + candidate[u]);
    }
  });
  expect_near(layer.cell(layer.x, {}).value(), expected, 1e-14);
}

TEST(Recurrent, NamesItsParameters) {
  Bench bench;
  const Rnn rnn(bench.root / "a", kConfig, bench.init);
  const Lstm lstm(bench.root / "b", kConfig, bench.init);
  const Gru gru(bench.root / "c", kConfig, bench.init);
  std::vector<std::string> found;
  for (const Parameter& parameter : bench.store) {
    found.push_back(parameter.name() + " " + to_string(parameter.shape()));
    EXPECT_EQ(parameter.options().decays, parameter.shape().rank() == 2) << parameter.name();
  }
  EXPECT_EQ(found, (std::vector<std::string>{
                       "a.input.weight [7, 3]", "a.input.bias [7]", "a.hidden.weight [7, 7]",
                       "b.input.weight [28, 3]", "b.input.bias [28]", "b.hidden.weight [28, 7]",
                       "c.input.weight [21, 3]", "c.input.bias [21]", "c.hidden.weight [14, 7]",
                       "c.candidate.weight [7, 7]"}));
}

TEST(Recurrent, TheForgetGateAloneStartsOpen) {
  Bench bench;
  const Lstm lstm(bench.root / "lstm", kConfig, bench.init);
  for (std::int64_t u = 0; u < 4 * kHidden; ++u)
    EXPECT_EQ(bench.value("lstm.input.bias").at({u}), u / kHidden == 1 ? 1 : 0) << u;
}

TEST(Recurrent, MapsOfSeveralGatesStartAsOneAloneWould) {
  Bench bench;
  const Lstm lstm(bench.root / "lstm", {.in = 50, .hidden = 40}, InitScheme("xavier", 0.02, 1));
  double largest = 0;
  for (const double weight : bench.value("lstm.input.weight").to_vector())
    largest = std::max(largest, std::abs(weight));
  // Of 8000 numbers in U(-bound, bound), bound = sqrt(6 / (in + out)) of one gate (Glorot & Bengio
  // 2010), the largest is within 1 % of the bound but for e^-80.
  const double bound = std::sqrt(6.0 / 90);
  EXPECT_LE(largest, bound);
  EXPECT_GE(largest, 0.99 * bound);
}

template <class Cell>
void expect_any_division_is_the_same() {
  Layer<Cell> layer;
  const Var x = layer.x, whole = layer.cell(x, {});
  RecurrentState state = layer.cell.start(kBatch);
  const Var first = layer.cell(slice(x, 1, 0, 2), state, {});
  const Var nothing = layer.cell(slice(x, 1, 2, 2), state, {});
  EXPECT_EQ(to_string(nothing.shape()), "[2, 0, 7]");
  std::vector<Var> parts = {first, nothing};
  for (std::int64_t t = 2; t < kTime; ++t) {
    const Var token = reshape(slice(x, 1, t, t + 1), {kBatch, kIn});
    state = layer.cell.step(token, state, {});
    parts.push_back(reshape(state.hidden, {kBatch, 1, kHidden}));
  }
  expect_near(concat(parts, 1).value(), whole.value(), 1e-14);
}

TEST(Recurrent, AStateGoesOnWhereItWasLeft) {
  expect_any_division_is_the_same<Rnn>();
  expect_any_division_is_the_same<Lstm>();
  expect_any_division_is_the_same<Gru>();
}

TEST(Recurrent, RefusesOtherShapes) {
  Layer<Lstm> layer;
  const RecurrentState of_one = layer.cell.start(1), of_two = layer.cell.start(2);
  const Var token = random_array({2, kIn}, 3);
  expect_throws<ShapeError>([&] { (void)layer.cell(token, {}); },
                            "recurrent cell: x [2, 3], expected rank 3");
  expect_throws<ShapeError>([&] { (void)layer.cell.step(token, of_one, {}); },
                            "recurrent cell: state [1, 7], expected [2, 7]");
  expect_throws<ShapeError>(
      [&] {
        (void)layer.cell.step(token, {of_two.hidden, {}}, {});
      },
      "recurrent cell: cell null, expected [2, 7]");
  expect_throws<ShapeError>([&] { (void)layer.cell.advance(token, of_two, {}); },
                            "recurrent cell: projected token [2, 3], expected [2, 28]");
  expect_throws<ShapeError>([&] { (void)layer.cell.project(of_two.hidden, {}); },
                            "linear: x [2, 7] has 7 columns but weight [28, 3] takes 3");
}

}  // namespace attune::recurrent_test
