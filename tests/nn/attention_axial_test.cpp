#include "attune/nn/attention/axial.h"

#include "attune/core/random.h"
#include "attune/nn/embedding.h"
#include "attune/nn/feed_forward.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/loss.h"
#include "attune/ops/reduce.h"
#include "attune/ops/shaping.h"
#include "nn/attention_test.h"

namespace attune::attention_axial_test {

constexpr AxialAttentionConfig kConfig{.model = 6, .heads = 2, .head_dim = 4, .bias = true};

struct Layer {
  explicit Layer(const char* encoding = "none")
      : position(make_positional_encoding(
            encoding, bench.root / "position",
            {.model = 6, .heads = 2, .head_dim = 4, .block_size = 8, .causal = false}, bench.init)),
        attention(bench.root / "a", kConfig, *position, bench.init, 0) {
    randomize(bench.store, 1);
  }
  Bench bench;
  std::unique_ptr<PositionalEncoding> position;
  AxialAttention attention;
};

// Attention of the vector at `own` to all vectors of a line, itself among them.
Row attend_by_hand(Bench& bench, const std::string& name, const std::vector<Row>& line,
                   std::size_t own) {
  const Row query = mapped(bench, name + ".query", line[own]);
  Row heads;
  for (std::int64_t h = 0; h < 2; ++h) {
    Row scores, mixed(4, 0.0);
    for (const Row& x : line) {
      scores.push_back(dot(part(query, 4 * h, 4), part(mapped(bench, name + ".key", x), 4 * h, 4)) /
                       2);
    }
    const Row weights = softmax_of(scores);
    for (std::size_t j = 0; j < line.size(); ++j)
      add_to(mixed, weights[j], part(mapped(bench, name + ".value", line[j]), 4 * h, 4));
    append(heads, mixed);
  }
  return mapped(bench, name + ".output", heads);
}

TEST(AxialAttention, EqualsTheFormula) {
  constexpr std::int64_t kRows = 3, kColumns = 5;
  Layer layer;
  const Array x = random_array({2, kRows, kColumns, 6}, 1);
  Row expected;
  for (std::int64_t b = 0; b < 2; ++b) {
    std::vector<std::vector<Row>> grid(kRows), rows(kRows), between(kRows);
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::int64_t c = 0; c < kColumns; ++c) {
        Row cell;
        for (std::int64_t w = 0; w < 6; ++w)
          cell.push_back(x.at({b, static_cast<std::int64_t>(r), c, w}));
        grid[r].push_back(cell);
      }
      for (std::size_t c = 0; c < kColumns; ++c) {
        rows[r].push_back(attend_by_hand(layer.bench, "a.rows", grid[r], c));
        Row sum = grid[r][c];
        add_to(sum, 1, rows[r][c]);
        between[r].push_back(sum);
      }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t c = 0; c < kColumns; ++c) {
        std::vector<Row> column;
        for (std::size_t k = 0; k < kRows; ++k) column.push_back(between[k][c]);
        Row y = attend_by_hand(layer.bench, "a.columns", column, r);
        add_to(y, 1, rows[r][c]);
        append(expected, y);
      }
    }
  }
  expect_near(layer.attention(x, {}).value(), expected, 1e-12);
}

TEST(AxialAttention, EveryPlaceReachesEveryOther) {
  Layer layer;
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  const Var x = tape.leaf(random_array({1, 3, 4, 6}, 1));
  const Var corner = slice(slice(layer.attention(x, pass), 1, 2, 3), 2, 3, 4);
  const Array slopes = tape.backward(sum(corner))[x];
  for (std::int64_t r = 0; r < 3; ++r)
    for (std::int64_t c = 0; c < 4; ++c) EXPECT_NE(slopes.at({0, r, c, 0}), 0) << r << " " << c;
}

// The scores that the kernels of both axes computed, which they count for the entropy log.
TEST(AxialAttention, CostIsPlacesTimesRowsPlusColumns) {
  Layer layer;
  for (const auto& [rows, columns] : {std::pair{2, 3}, {4, 6}, {8, 8}, {5, 16}}) {
    AttentionStatistics statistics(2, 2);
    Pass pass;
    pass.statistics = &statistics;
    (void)layer.attention(random_array({1, rows, columns, 6}, 1), pass);
    EXPECT_EQ(statistics.at(0, 0).score_count + statistics.at(1, 0).score_count,
              rows * columns * (rows + columns));
  }
}

TEST(AxialAttention, PositionIsThePlaceAlongEachAxis) {
  Layer plain("none"), rotated("rope");
  const Array x = random_array({1, 3, 4, 6}, 1);
  const auto swapped = [&](const Layer& layer) {  // the first two columns change places
    const auto swap = [](const Var& grid) {
      return concat({slice(grid, 2, 1, 2), slice(grid, 2, 0, 1), slice(grid, 2, 2, 4)}, 2);
    };
    const Array there = swap(layer.attention(swap(x), {})).value();
    const Array here = layer.attention(x, {}).value();
    double largest = 0;
    for (std::size_t i = 0; i < here.to_vector().size(); ++i)
      largest = std::max(largest, std::abs(here.to_vector()[i] - there.to_vector()[i]));
    return largest;
  };
  EXPECT_LE(swapped(plain), 1e-13);
  EXPECT_GT(swapped(rotated), 1e-3);
}

// Whether the row of each place holds an odd number of ones: what a place sees along one axis, and
// no place of a column alone knows.
TEST(AxialAttention, LearnsTheParityOfEachRow) {
  constexpr std::int64_t kBatch = 16, kSide = 4, kModel = 16;
  Bench bench(DType::float32);
  const InitScheme init("xavier", 0.5, 1);
  const auto none = make_positional_encoding("none", bench.root, {}, init);
  const Embedding embedding(bench.root / "embedding", 2, kModel, init);
  const AxialAttention attention(bench.root / "a", {.model = kModel, .heads = 2, .head_dim = 8},
                                 *none, init, 0);
  const FeedForward hidden(bench.root / "hidden", {.model = kModel, .hidden = 64}, init, 0);
  const Linear readout(bench.root / "readout", kModel, 2, true, init);
  struct Grids {
    std::vector<std::int32_t> bits, parities;
  };
  const auto draw = [&](std::uint32_t seed) {
    Grids grids;
    RandomCursor cursor(Randomness{.seed = seed}.stream("bits"), 0);
    for (std::int64_t row = 0; row < kBatch * kSide; ++row) {
      std::int32_t ones = 0;
      for (std::int64_t c = 0; c < kSide; ++c) {
        grids.bits.push_back(static_cast<std::int32_t>(cursor.below(2)));
        ones += grids.bits.back();
      }
      grids.parities.insert(grids.parities.end(), kSide, ones % 2);
    }
    return grids;
  };
  const auto answer = [&](const Grids& grids, const Pass& pass) {
    Var x = embedding(grids.bits, {kBatch, kSide, kSide}, pass);
    x = x + attention(x, pass);
    x = x + hidden(x, pass);
    return cross_entropy(readout(x, pass), grids.parities);
  };
  descend(bench.store, 400, 0.01, [&](const Pass& pass) {
    return multiply(answer(draw(pass.random.step), pass).loss_sum, 1.0 / (kBatch * kSide * kSide));
  });
  std::int64_t correct = 0;
  for (std::uint32_t seed = 0; seed < 10; ++seed)
    correct += answer(draw(1'000'000 + seed), {}).correct;
  EXPECT_GE(static_cast<double>(correct), 0.99 * 10 * kBatch * kSide * kSide);
}

TEST(AxialAttention, RefusesAMaskAndAnotherRank) {
  Layer layer;
  expect_throws<ShapeError>(
      [&] {
        (void)layer.attention(random_array({2, 3, 6}, 1), {});
      },
      "axial attention: x [2, 3, 6], expected rank 4");
  const Mask mask = Mask::causal();
  Pass pass;
  pass.mask = &mask;
  expect_throws<UsageError>(
      [&] {
        (void)layer.attention(random_array({1, 2, 3, 6}, 1), pass);
      },
      "axial attention: the pass has a mask or a cache, expected neither");
}

}  // namespace attune::attention_axial_test
