// Attention over random shapes, masks and biases, against loops.
#include "attune/ops/attention.h"
#include "attune/ops/key_value_buffer.h"
#include "ops/property_test.h"

namespace attune::property_attention_test {

using Values = std::span<const Var>;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

Mask random_mask(Draw& draw, std::int64_t batch, std::int64_t heads, std::int64_t query,
                 std::int64_t key) {
  const auto flags = [&](std::int64_t count) {
    std::vector<std::uint8_t> keep(index(count));
    for (std::uint8_t& flag : keep) flag = draw.between(0, 3) != 0;
    return keep;
  };
  Mask mask;
  if (draw.coin()) mask &= Mask::causal();
  if (draw.between(0, 3) == 0) mask &= Mask::window(draw.between(1, 4));
  if (batch == 0) return mask;  // flags of no examples are refused
  if (draw.between(0, 3) == 0) mask &= Mask::key_padding(batch, flags(batch * key));
  if (draw.between(0, 3) == 0) {
    const std::int64_t masks = draw.coin() ? batch : 1, of_heads = draw.coin() ? heads : 1;
    mask &= Mask::custom(masks, of_heads, query, key, flags(masks * of_heads * query * key));
  }
  return mask;
}

// Operands and options of one call, and the call in a loop.
struct AttentionDraw {
  explicit AttentionDraw(Draw& draw)
      : batch(draw.extent()),
        kv_heads(draw.between(1, 2)),
        heads(kv_heads * draw.between(1, 2)),
        query(draw.extent()),
        key(draw.extent()),
        head_dim(draw.extent(1)),
        value_dim(draw.extent(1)),
        mask(random_mask(draw, batch, heads, query, key)),
        has_bias(draw.coin()),
        has_table(draw.coin()),
        softcap(draw.coin() ? 0 : 1.5),
        scale(draw.coin() ? 0 : 0.8) {
    inputs = {draw.array({batch, query, heads * head_dim}, -2, 2),
              draw.array({batch, key, kv_heads * head_dim}, -2, 2),
              draw.array({batch, key, kv_heads * value_dim}, -2, 2)};
    if (has_bias) inputs.push_back(draw.array({draw.coin() ? batch : 1, heads, query, key}));
    const std::int64_t rows = draw.coin() ? batch : 1;
    for (std::int64_t i = 0; i < rows * query; ++i) {
      query_positions.push_back(static_cast<std::int32_t>(draw.between(0, 9)));
    }
    for (std::int64_t i = 0; i < rows * key; ++i) {
      key_positions.push_back(static_cast<std::int32_t>(draw.between(0, 9)));
    }
    if (has_table) inputs.push_back(draw.array({heads, 19}));
  }

  [[nodiscard]] DistanceBias distance_bias(const Var& table) const {
    return {table, -9, query_positions, key_positions};
  }
  [[nodiscard]] Var bias(Values x) const { return has_bias ? x[3] : Var(); }
  [[nodiscard]] AttentionOptions options(Values x, AttentionForm form) const {
    AttentionOptions options;
    options.heads = heads;
    options.kv_heads = kv_heads;
    options.scale = scale;
    options.softcap = softcap;
    options.mask = &mask;
    options.form = form;
    if (has_table) options.distance_bias = distance_bias(x.back());
    return options;
  }

  [[nodiscard]] double distance_term(std::int64_t b, std::int64_t h, std::int64_t i,
                                     std::int64_t j) const {
    if (!has_table) return 0;
    const bool one_row = std::ssize(query_positions) == query;
    const std::int64_t row = one_row ? 0 : b;
    const std::int64_t distance =
        key_positions[index(row * key + j)] - query_positions[index(row * query + i)];
    return read(inputs.back(), {h, distance + 9});
  }
  // Scaled, biased, capped.
  [[nodiscard]] double score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    double dot = 0;
    for (std::int64_t c = 0; c < head_dim; ++c) {
      dot += read(inputs[0], {b, i, h * head_dim + c}) *
             read(inputs[1], {b, j, h / (heads / kv_heads) * head_dim + c});
    }
    double s = dot * (scale == 0 ? 1 / std::sqrt(static_cast<double>(head_dim)) : scale);
    if (has_bias) s += read(inputs[3], {b, h, i, j});
    s += distance_term(b, h, i, j);
    return softcap == 0 ? s : softcap * std::tanh(s / softcap);
  }
  [[nodiscard]] Shape shape() const { return {batch, query, heads * value_dim}; }
  [[nodiscard]] std::vector<double> naive() const {
    return tabulate(shape(), [&](const Coordinates& at) {
      const std::int64_t h = at[2] / value_dim, c = at[2] % value_dim;
      double sum = 0, mixture = 0;
      for (std::int64_t j = 0; j < key; ++j) {
        if (!mask.keeps(at[0], h, at[1], j, query, key)) continue;
        const double weight = std::exp(score(at[0], h, at[1], j));
        sum += weight;
        mixture += weight * read(inputs[2], {at[0], j, h / (heads / kv_heads) * value_dim + c});
      }
      return sum == 0 ? 0 : mixture / sum;
    });
  }

  std::int64_t batch, kv_heads, heads, query, key, head_dim, value_dim;
  Mask mask;
  bool has_bias, has_table;
  double softcap, scale;
  std::vector<Array> inputs;
  std::vector<std::int32_t> query_positions, key_positions;
};

void expect_attention_properties(const char* name, AttentionForm form) {
  for_draws(name, [&](Draw& draw) {
    const AttentionDraw drawn(draw);
    expect_properties(
        [&](Values x) {
          return attention(x[0], x[1], x[2], drawn.bias(x), drawn.options(x, form));
        },
        drawn.inputs, drawn.shape(), drawn.naive());
  });
}

TEST(PropertyAttention, Stored) {
  expect_attention_properties("attention, stored", AttentionForm::stored);
}

TEST(PropertyAttention, Tiled) {
  expect_attention_properties("attention, tiled", AttentionForm::tiled);
}

TEST(PropertyAttention, Sparse) {
  expect_attention_properties("attention, sparse", AttentionForm::sparse);
}

TEST(PropertyAttention, Textbook) {
  for_draws("attention, textbook", [](Draw& draw) {
    const AttentionDraw drawn(draw);
    expect_properties(
        [&](Values x) {
          return attention_textbook(x[0], x[1], x[2], drawn.bias(x),
                                    drawn.options(x, AttentionForm::automatic));
        },
        drawn.inputs, drawn.shape(), drawn.naive());
  });
}

// The same weights fall in all forms; which, tests/ops/attention_test.cpp says.
TEST(PropertyAttention, DropoutOfWeights) {
  for_draws("attention with dropout", [](Draw& draw) {
    const AttentionDraw drawn(draw);
    const auto first_example = draw.between(0, 5);
    const auto options = [&](Values x, AttentionForm form) {
      AttentionOptions options = drawn.options(x, form);
      options.dropout = {
          .rate = 0.5, .stream = RandomStream(3, 1, 4), .first_example = first_example};
      return options;
    };
    const std::vector<Var> x(drawn.inputs.begin(), drawn.inputs.end());
    const Array expected =
        attention_textbook(x[0], x[1], x[2], drawn.bias(x), options(x, AttentionForm::automatic))
            .value();
    for (const AttentionForm form :
         {AttentionForm::stored, AttentionForm::tiled, AttentionForm::sparse}) {
      expect_properties(
          [&](Values v) { return attention(v[0], v[1], v[2], drawn.bias(v), options(v, form)); },
          drawn.inputs, expected);
    }
  });
}

TEST(PropertyAttention, OverACache) {
  for_draws("attention over a cache", [](Draw& draw) {
    const AttentionDraw drawn(draw);
    const std::vector<Var> x(drawn.inputs.begin(), drawn.inputs.end());
    const Shape &keys = drawn.inputs[1].shape(), &values = drawn.inputs[2].shape();
    KeyValueBuffer buffer(drawn.batch, drawn.key + draw.extent(), keys[2], values[2],
                          DType::float64);
    buffer.write(0, drawn.inputs[1], drawn.inputs[2]);
    const Array y = attention_over_cache(drawn.inputs[0], buffer, drawn.key, drawn.bias(x).value(),
                                         drawn.options(x, AttentionForm::automatic));
    expect_near(y, Array::from(drawn.shape(), drawn.naive(), DType::float64), 1e-12);
  });
}

TEST(PropertyAttention, DistanceBiasOfAllScores) {
  for_draws("expand", [](Draw& draw) {
    AttentionDraw drawn(draw);
    if (drawn.batch == 0) return;  // no positions: nothing says how many examples there are
    if (!drawn.has_table) drawn.inputs.push_back(draw.array({drawn.heads, 19}));
    drawn.has_table = true;
    const bool one_row = std::ssize(drawn.query_positions) == drawn.query &&
                         std::ssize(drawn.key_positions) == drawn.key;
    const Shape shape{one_row ? 1 : drawn.batch, drawn.heads, drawn.query, drawn.key};
    expect_properties(
        [&](Values x) { return expand(drawn.distance_bias(x[0]), drawn.query, drawn.key); },
        {drawn.inputs.back()}, shape, tabulate(shape, [&](const Coordinates& at) {
          return drawn.distance_term(at[0], at[1], at[2], at[3]);
        }));
  });
}

TEST(PropertyAttention, RotatePairs) {
  for_draws("rotate_pairs", [](Draw& draw) {
    const std::int64_t batch = draw.extent(), time = draw.extent(), heads = draw.between(1, 3);
    const std::int64_t pairs = draw.between(0, 2), head_dim = 2 * pairs + draw.between(0, 2);
    const bool interleaved = draw.coin();
    const Array x = draw.array({batch, time, heads * head_dim});
    const Array angles = draw.array({draw.coin() ? batch : 1, time, pairs}, -3, 3);
    const auto of_angles = [&](double (*function)(double)) {
      std::vector<double> values = angles.to_vector();
      for (double& value : values) value = function(value);
      return Array::from(angles.shape(), values, DType::float64);
    };
    const Array cosines = of_angles([](double angle) { return std::cos(angle); });
    const Array sines = of_angles([](double angle) { return std::sin(angle); });
    expect_properties(
        [&](Values v) {
          return rotate_pairs(v[0], heads, cosines.cast(v[0].dtype()), sines.cast(v[0].dtype()),
                              interleaved);
        },
        {x}, x.shape(), tabulate(x.shape(), [&](const Coordinates& at) {
          const std::int64_t feature = at[2] % head_dim;
          if (feature >= 2 * pairs) return read(x, at);
          const std::int64_t k = interleaved ? feature / 2 : feature % pairs;
          const bool first = interleaved ? feature % 2 == 0 : feature < pairs;
          const std::int64_t step = interleaved ? 1 : pairs;
          const double other = read(x, with(at, 2, first ? at[2] + step : at[2] - step));
          const double angle = read(angles, {at[0], at[1], k});
          // The first of a pair becomes a cos - b sin, the second a sin + b cos.
          return read(x, at) * std::cos(angle) + (first ? -1 : 1) * other * std::sin(angle);
        }));
  });
}

}  // namespace attune::property_attention_test
