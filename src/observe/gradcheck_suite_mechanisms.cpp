#include "attune/nn/attention/additive.h"
#include "attune/nn/attention/axial.h"
#include "attune/nn/attention/differential.h"
#include "attune/nn/attention/external_memory.h"
#include "attune/nn/attention/latent.h"
#include "attune/nn/attention/linear.h"
#include "attune/nn/attention/location_sensitive.h"
#include "attune/nn/attention/mixture.h"
#include "attune/nn/attention/top_k.h"
#include "attune/nn/attention/triangular.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/shaping.h"
#include "observe/gradcheck_suite_layer_case.h"

// The kinds of attention of nn/attention, by their inputs and all their parameters.
namespace attune::gradcheck_suite {
namespace {

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

// A kind of self-attention and the encoding it reads positions through.
struct Kind {
  std::unique_ptr<PositionalEncoding> encoding;
  std::unique_ptr<SelfAttention> layer;
};

// "layer self_attention <kind>": every registered kind, with and without causal mask.
void add_kinds(Cases& cases) {
  for (const AttentionInfo& info : list_attention()) {
    for (const bool causal : {true, false}) {
      add_layer(
          cases, "self_attention " + info.name + (causal ? "" : " no mask"), {{2, 4, 6}},
          [&](const Scope& root) {
            auto encoding = make_positional_encoding(
                "rope", root / "position",
                {.model = 6, .heads = 2, .head_dim = 4, .block_size = 4, .causal = causal}, init());
            AttentionConfig config{.model = 6,
                                   .heads = 2,
                                   .head_dim = 4,
                                   .bias = true,
                                   .top_k = 2,
                                   .experts = 2,
                                   .features = 6};
            if (!causal) config.mask = Mask::none();
            auto layer = make_self_attention(info.name, root, config, *encoding, init(), 0);
            return Kind{std::move(encoding), std::move(layer)};
          },
          [](const Kind& kind, Values x, const Pass& pass) {
            PositionContext context = PositionContext::of(Positions::range(0, 4));
            kind.encoding->prepare(context, pass);
            return (*kind.layer)(x[0], context, pass);
          });
    }
  }
}

// The classes of the kinds by their names, where they have more to them than the kind's forward
// pass.
void add_kinds_of_their_own(Cases& cases) {
  const auto add = [&](const std::string& name, auto make) {
    add_layer(
        cases, name, {{2, 3, 6}},
        [=](const Scope& root) {
          auto encoding = make_positional_encoding("none", root / "position", {}, init());
          auto layer = make(root, *encoding);
          return std::pair(std::move(encoding), std::move(layer));
        },
        [](const auto& kind, Values x, const Pass& pass) {
          if constexpr (requires { kind.second->route(x[0], {}, pass); }) {
            const MixtureAttention::Routed routed = kind.second->route(x[0], {}, pass);
            return routed.y * routed.balance;
          } else {
            return (*kind.second)(x[0], {}, pass);
          }
        });
  };
  const AttentionConfig config{.model = 6, .heads = 2, .head_dim = 3, .top_k = 2, .experts = 2};
  add("linear_attention", [=](const Scope& root, const PositionalEncoding& encoding) {
    return std::make_unique<LinearAttention>("linear", root, config,
                                             std::make_unique<EluFeatures>(), encoding, init(), 0);
  });
  add("differential_attention depth 3", [=](const Scope& root, const PositionalEncoding& encoding) {
    return std::make_unique<DifferentialAttention>(root, config, encoding, init(), 3);
  });
  add("mixture_attention balance", [=](const Scope& root, const PositionalEncoding& encoding) {
    return std::make_unique<MixtureAttention>(root, config, encoding, init(), 0);
  });
  add("top_k_attention", [=](const Scope& root, const PositionalEncoding& encoding) {
    return std::make_unique<TopKAttention>(root, config, encoding, init(), 0);
  });
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
  add_kinds(cases);
  add_kinds_of_their_own(cases);
}

}  // namespace attune::gradcheck_suite
