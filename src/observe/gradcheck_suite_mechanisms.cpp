#include "attune/nn/attention/additive.h"
#include "attune/nn/attention/axial.h"
#include "attune/nn/attention/external_memory.h"
#include "attune/nn/attention/latent.h"
#include "attune/nn/attention/location_sensitive.h"
#include "attune/nn/attention/triangular.h"
#include "attune/ops/shaping.h"
#include "observe/gradcheck_suite_layer_case.h"

// The kinds of attention of nn/attention, by their inputs and all their parameters.
namespace attune::gradcheck_suite {
namespace {

const auto kCall = [](const auto& layer, Values inputs, const Pass& pass) {
  return layer(inputs[0], pass);
};

// What a layer mixed and its weights, as one output.
Var both(const Attended& attended) { return concat({attended.mixed, attended.weights}, 2); }

void add_recurrent_attention(Cases& cases) {
  const AdditiveAttentionConfig content{.decoder = 3, .encoder = 4, .hidden = 5, .bias = true};
  const std::vector<Shape> shapes = {{2, 3, 3}, {2, 5, 4}};
  const auto call = [](const auto& layer, Values x, const Pass& pass) {
    return both(layer(x[0], x[1], pass));
  };
  add_layer(
      cases, "additive_attention", shapes,
      [=](const Scope& root) { return AdditiveAttention(root, content, init(), 0); }, call);
  for (const bool cumulative : {false, true}) {
    const LocationSensitiveConfig config{content, 2, 3, cumulative};
    add_layer(
        cases, std::string("location_sensitive_attention") + (cumulative ? " cumulative" : ""),
        shapes,
        [=](const Scope& root) { return LocationSensitiveAttention(root, config, init(), 0); },
        call);
  }
}

void add_triangles(Cases& cases) {
  for (const TriangleNode node : {TriangleNode::starting, TriangleNode::ending}) {
    add_layer(
        cases,
        std::string("triangular_attention ") +
            (node == TriangleNode::starting ? "starting" : "ending"),
        {{2, 3, 3, 4}},
        [=](const Scope& root) {
          return TriangularAttention(root, {.pair = 4, .heads = 2, .head_dim = 3, .node = node},
                                     init(), 0);
        },
        kCall);
  }
}

// The encoding that a layer reads positions through is beside it.
struct Grid {
  std::unique_ptr<PositionalEncoding> encoding;
  AxialAttention layer;
};

void add_layers_of_multi_head_attention(Cases& cases) {
  add_layer(
      cases, "latent_cross_attention", {{2, 5, 4}},
      [](const Scope& root) {
        return LatentCrossAttention(
            root, {.latents = 3, .model = 6, .memory = 4, .heads = 2, .head_dim = 3}, init(), 0);
      },
      kCall);
  for (const char* encoding : {"none", "rope"}) {
    add_layer(
        cases, std::string("axial_attention ") + encoding, {{2, 2, 3, 6}},
        [=](const Scope& root) {
          auto made = make_positional_encoding(
              encoding, root / "position",
              {.model = 6, .heads = 2, .head_dim = 4, .block_size = 4, .causal = false}, init());
          AxialAttention layer(root, {.model = 6, .heads = 2, .head_dim = 4}, *made, init(), 0);
          return Grid{std::move(made), std::move(layer)};
        },
        [](const Grid& grid, Values x, const Pass& pass) { return grid.layer(x[0], pass); });
  }
}

// By the queries; what stands in a memory has no gradient.
void add_external_memory(Cases& cases) {
  ExternalMemory memory(2, 3, 4, kDouble);
  memory.add(uniform({9, 6}, 20), uniform({9, 8}, 21));
  cases.push_back(uniform_case("layer external_memory", {{2, 3, 6}},
                               [memory](Values x) { return memory(x[0], {.top = 4}, {}); }));
}

}  // namespace

void add_mechanisms(Cases& cases) {
  add_recurrent_attention(cases);
  add_triangles(cases);
  add_layers_of_multi_head_attention(cases);
  add_external_memory(cases);
}

}  // namespace attune::gradcheck_suite
