// Attention is not one thing. Every registered kind is a layer that is made by its name; others are
// layers of their own, with what they need beside tokens. Four of them, each with what is true of
// it and of no other.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include <attune/nn/attention/external_memory.h>
#include <attune/nn/attention/linear.h>
#include <attune/nn/attention/location_sensitive.h>
#include <attune/nn/attention/triangular.h>
#include <attune/ops/arithmetic.h>
#include <attune/ops/shaping.h>

using attune::Array;
using attune::DType;
using attune::Var;

namespace {

Array normal(const attune::Shape& shape, const char* name) {
  const attune::RandomStream stream = attune::Randomness{.seed = 2}.stream(name);
  return attune::Initializer::normal(1).make(shape, DType::float64, stream);
}

double difference(const Var& a, const Var& b) {
  double largest = 0;
  for (const double element : (a - b).value().to_vector())
    largest = std::max(largest, std::abs(element));
  return largest;
}

}  // namespace

int main() {
  attune::ParameterStore store;
  const attune::Scope root(store, /*seed=*/1, DType::float64);
  const attune::InitScheme init("xavier", 0.02, /*layers=*/1);
  const auto no_positions = attune::make_positional_encoding("none", root, {}, init);
  const attune::AttentionConfig config{.model = 8, .heads = 2, .head_dim = 4, .top_k = 3};
  const Array x = normal({1, 20, 8}, "tokens");
  bool holds = true;
  const auto check = [&](const char* claim, double found, bool is_true) {
    std::printf("%-66s %9.2e%s\n", claim, found, is_true ? "" : "  NOT SO");
    holds = holds && is_true;
  };

  // What stands in a block, by name. What is a distribution over tokens logs its entropy.
  for (const attune::AttentionInfo& kind : attune::list_attention()) {
    const auto layer = attune::make_self_attention(kind.name, root / kind.name, config,
                                                   *no_positions, init, /*layer=*/0);
    const auto logged = static_cast<int>(layer->logged_heads());
    attune::AttentionStatistics statistics(1, logged);
    const Array y = (*layer)(x, {}, {.statistics = &statistics}).value();
    std::printf("%-16s", kind.name.c_str());
    for (int h = 0; h < logged; ++h)
      std::printf(" head %d: %.3f nats", h, statistics.at(0, h).entropy_nats());
    std::puts(logged == 0 ? " has no weights to log" : "");
    holds = holds && y.shape() == x.shape();
  }

  // Linear attention is a recurrence: what it has read is a state of fixed size.
  const attune::LinearAttention linear("linear", root / "recurrent", config,
                                       std::make_unique<attune::EluFeatures>(), *no_positions, init,
                                       0);
  const Var at_once = linear(x, {}, {});
  attune::LinearAttentionState state;
  double worst = 0;
  for (std::int64_t t = 0; t < 20; ++t) {
    const Var y = linear.step(slice(Var(x), 1, t, t + 1), {}, state, {});
    worst = std::max(worst, difference(y, slice(at_once, 1, t, t + 1)));
  }
  check("linear: token by token from a state, differs by", worst, worst <= 1e-12);

  // A memory is data: what was put there a moment ago is found among 1000 other entries.
  attune::ExternalMemory memory(/*heads=*/1, /*key_dim=*/16, /*value_dim=*/8, DType::float64);
  memory.add(normal({1000, 16}, "keys"), normal({1000, 8}, "values"));
  const Array key = normal({1, 16}, "a fact's key"), fact = normal({1, 8}, "a fact");
  const Var query = reshape(Var(key), {1, 1, 16});
  const attune::ExternalMemory::Search search{.top = 4, .scale = 4};
  const double before = difference(memory(query, search, {}), reshape(Var(fact), {1, 1, 8}));
  memory.add(key, fact);
  const double after = difference(memory(query, search, {}), reshape(Var(fact), {1, 1, 8}));
  check("memory: distance of the answer from a fact before it is stored", before, before > 0.1);
  check("memory: and after", after, after <= 1e-3);

  // Triangular attention reads a graph: to name its nodes the other way round changes nothing else.
  const attune::TriangularAttention triangular(root / "triangular",
                                               {.pair = 6, .heads = 2, .head_dim = 3}, init, 0);
  const auto renamed = [](const Var& z) {  // node 0 becomes the last
    const Var rows = attune::concat({slice(z, 1, 1, 5), slice(z, 1, 0, 1)}, 1);
    return attune::concat({slice(rows, 2, 1, 5), slice(rows, 2, 0, 1)}, 2);
  };
  const Var z = normal({1, 5, 5, 6}, "edges");
  const double by_name = difference(triangular(renamed(z), {}), renamed(triangular(z, {})));
  check("triangular: renaming the nodes of a graph, differs by", by_name, by_name <= 1e-12);

  // Location-sensitive attention knows where it looked: the same question over a memory of equal
  // entries is answered differently the second time. Content alone could not.
  const attune::LocationSensitiveAttention aligned(
      root / "aligned",
      {.content = {.decoder = 8, .encoder = 8, .hidden = 8}, .filters = 4, .width = 3}, init, 0);
  const Var question = normal({1, 1, 8}, "question");
  const Var same = broadcast_to(Var(normal({1, 1, 8}, "entry")), attune::Shape{1, 6, 8});
  const Var weights = aligned(attune::concat({question, question}, 1), same, {}).weights;
  const double moved = difference(slice(weights, 1, 0, 1), slice(weights, 1, 1, 2));
  check("location-sensitive: weights move on by", moved, moved > 1e-4);
  return holds ? 0 : 1;
}
