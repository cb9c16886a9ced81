#include "attune/nn/attention/triangular.h"

#include <algorithm>
#include <optional>

#include "attune/core/random.h"
#include "attune/nn/feed_forward.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/reduce.h"
#include "attune/ops/shaping.h"
#include "attune/ops/unary.h"
#include "nn/attention_test.h"

namespace attune::attention_triangular_test {

constexpr std::int64_t kNodes = 8, kPair = 5, kHeads = 2, kWidth = 3;

struct Layer {
  explicit Layer(TriangleNode node)
      : attention(bench.root / "a", {kPair, kHeads, kWidth, node}, bench.init, 0) {
    randomize(bench.store, 1);
  }
  Bench bench;
  TriangularAttention attention;
};

Row edge_of(const Array& z, std::int64_t b, std::int64_t i, std::int64_t j) {
  Row edge;
  for (std::int64_t c = 0; c < z.shape()[3]; ++c) edge.push_back(z.at({b, i, j, c}));
  return edge;
}

Row normalised(Bench& bench, const Row& x) {
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
  Row y;
  for (std::size_t c = 0; c < x.size(); ++c) {
    y.push_back((x[c] - mean) / std::sqrt(variance + 1e-5) *
                    bench.value("a.norm.gain").at({static_cast<std::int64_t>(c)}) +
                bench.value("a.norm.shift").at({static_cast<std::int64_t>(c)}));
  }
  return y;
}

// Algorithms 13 and 14 in their own indices, over the first `nodes` nodes.
Row by_hand(Layer& layer, const Array& z, TriangleNode node, std::int64_t nodes) {
  const bool starting = node == TriangleNode::starting;
  const auto edge = [&](std::int64_t b, std::int64_t i, std::int64_t j) {
    return normalised(layer.bench, edge_of(z, b, i, j));
  };
  Row all;
  for (std::int64_t b = 0; b < z.shape()[0]; ++b) {
    for (std::int64_t i = 0; i < nodes; ++i) {
      for (std::int64_t j = 0; j < nodes; ++j) {
        const Row query = mapped(layer.bench, "a.query", edge(b, i, j));
        Row heads;
        for (std::int64_t h = 0; h < kHeads; ++h) {
          Row scores, mixed(kWidth, 0.0);
          for (std::int64_t k = 0; k < nodes; ++k) {
            const Row seen = starting ? edge(b, i, k) : edge(b, k, j);
            const Row third = starting ? edge(b, j, k) : edge(b, k, i);
            const Row key = mapped(layer.bench, "a.key", seen);
            scores.push_back(dot(part(query, h * kWidth, kWidth), part(key, h * kWidth, kWidth)) /
                                 std::sqrt(static_cast<double>(kWidth)) +
                             mapped(layer.bench, "a.closing", third)[static_cast<std::size_t>(h)]);
          }
          const Row weights = softmax_of(scores);
          for (std::int64_t k = 0; k < nodes; ++k) {
            const Row seen = starting ? edge(b, i, k) : edge(b, k, j);
            add_to(mixed, weights[static_cast<std::size_t>(k)],
                   part(mapped(layer.bench, "a.value", seen), h * kWidth, kWidth));
          }
          append(heads, mixed);
        }
        const Row gate = mapped(layer.bench, "a.gate", edge(b, i, j));
        for (std::size_t c = 0; c < heads.size(); ++c) heads[c] /= 1 + std::exp(-gate[c]);
        append(all, mapped(layer.bench, "a.output", heads));
      }
    }
  }
  return all;
}

constexpr TriangleNode kBoth[] = {TriangleNode::starting, TriangleNode::ending};

TEST(TriangularAttention, EqualsTheFormulaAroundEitherNode) {
  for (const TriangleNode node : kBoth) {
    Layer layer(node);
    const Array z = random_array({2, 4, 4, kPair}, 1);
    expect_near(layer.attention(z, {}).value(), by_hand(layer, z, node, 4), 1e-12);
  }
}

// z with its nodes in another order: z'[i, j] = z[order[i], order[j]].
Array renamed(const Array& z, const std::vector<std::int64_t>& order) {
  const auto along = [&](const Var& x, int axis) {
    std::vector<Var> parts;
    for (const std::int64_t i : order) parts.push_back(slice(x, axis, i, i + 1));
    return concat(parts, axis);
  };
  return along(along(z, 1), 2).value();
}

TEST(TriangularAttention, RenamingTheNodesRenamesTheResult) {
  const std::vector<std::int64_t> order = {5, 2, 7, 0, 1, 6, 3, 4};
  for (const TriangleNode node : kBoth) {
    Layer layer(node);
    const Array z = random_array({1, kNodes, kNodes, kPair}, 1);
    expect_near(layer.attention(renamed(z, order), {}).value(),
                renamed(layer.attention(z, {}).value(), order), 1e-10);
  }
}

TEST(TriangularAttention, PaddingOfNodesIsNotSeen) {
  const std::vector<std::int64_t> lengths = {3, 5};
  const Mask padding = Mask::key_lengths(lengths, 5);
  Pass pass;
  pass.mask = &padding;
  for (const TriangleNode node : kBoth) {
    Layer layer(node);
    const Array z = random_array({2, 5, 5, kPair}, 1);
    const Var y = slice(layer.attention(z, pass), 0, 0, 1);
    expect_near(slice(slice(y, 1, 0, 3), 2, 0, 3).value(),
                by_hand(layer, slice(Var(z), 0, 0, 1).value(), node, 3), 1e-12);
  }
}

TEST(TriangularAttention, RefusesWhatIsNoPairRepresentation) {
  Layer layer(TriangleNode::starting);
  expect_throws<ShapeError>(
      [&] {
        (void)layer.attention(random_array({2, 3, 4, 5}, 1), {});
      },
      "triangular attention: z [2, 3, 4, 5], expected [batch, n, n, 5]");
}

// From the lengths of edges to the shortest of the direct way and those over one more node: what
// an edge alone does not know, and its triangles do.
struct ShortestPaths {
  static constexpr std::int64_t kBatch = 8, kModel = 16;

  explicit ShortestPaths(bool triangles)
      : enter(bench.root / "enter", 1, kModel, true, init),
        leave(bench.root / "leave", kModel, 1, true, init) {
    for (std::int64_t l = 0; l < 2; ++l) {
      const Scope scope = bench.root / l;
      if (triangles) {
        starting.emplace_back(scope / "starting",
                              TriangularAttentionConfig{kModel, 2, 8, TriangleNode::starting}, init,
                              0);
        ending.emplace_back(scope / "ending",
                            TriangularAttentionConfig{kModel, 2, 8, TriangleNode::ending}, init, 0);
      }
      transition.emplace_back(scope / "transition", FeedForwardConfig{kModel, 32}, init, 0);
    }
  }
  struct Graphs {
    Array lengths, shortest;  // [batch, n, n, 1]
  };
  static Graphs draw(std::uint32_t seed) {
    Row lengths, shortest;
    for (std::uint32_t b = 0; b < kBatch; ++b) {
      RandomCursor cursor(Randomness{.seed = seed}.stream("graphs"), b);
      double d[kNodes][kNodes] = {};
      for (int i = 0; i < kNodes; ++i)
        for (int j = i + 1; j < kNodes; ++j) d[i][j] = d[j][i] = cursor.uniform();
      for (auto& from : d)
        for (const double length : from) lengths.push_back(length);
      for (int i = 0; i < kNodes; ++i) {
        for (int j = 0; j < kNodes; ++j) {
          double best = d[i][j];
          for (int k = 0; k < kNodes; ++k) best = std::min(best, d[i][k] + d[k][j]);
          shortest.push_back(best);
        }
      }
    }
    const Shape shape{kBatch, kNodes, kNodes, 1};
    return {Array::from(shape, lengths, DType::float32),
            Array::from(shape, shortest, DType::float32)};
  }
  Var error(const Graphs& graphs, const Pass& pass) const {
    Var z = enter(graphs.lengths, pass);
    for (std::size_t l = 0; l < 2; ++l) {
      if (!starting.empty()) {
        z = z + starting[l](z, pass);
        z = z + ending[l](z, pass);
      }
      const Shape flat{kBatch, kNodes * kNodes, kModel};
      z = z + reshape(transition[l](reshape(z, flat), pass), z.shape());
    }
    return mean(abs(leave(z, pass) - Var(graphs.shortest)));
  }
  double train_and_test(int steps) {
    descend(bench.store, steps, 0.005,
            [&](const Pass& pass) { return error(draw(pass.random.step), pass); });
    double sum = 0;
    for (std::uint32_t seed = 0; seed < 10; ++seed)
      sum += error(draw(1'000'000 + seed), {}).value().item() / 10;
    return sum;
  }

  Bench bench{DType::float32};
  InitScheme init{"xavier", 0.5, 1};
  Linear enter, leave;
  std::vector<TriangularAttention> starting, ending;
  std::vector<FeedForward> transition;
};

TEST(TriangularAttention, HalvesTheErrorOfShortestPathsAgainstEdgesAlone) {
  const double with = ShortestPaths(true).train_and_test(300);
  const double without = ShortestPaths(false).train_and_test(300);
  EXPECT_LE(with, 0.5 * without);
}

}  // namespace attune::attention_triangular_test
