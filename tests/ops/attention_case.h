#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "attune/ops/attention.h"
#include "ops/op_test.h"

// What the tests of attention share.
namespace attune {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline Array column(std::initializer_list<double> values, DType dtype = DType::float64) {
  return Array::from({1, static_cast<std::int64_t>(values.size()), 1}, values, dtype);
}

inline bool bitwise_equal(const Array& a, const Array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && dispatch(a.dtype(), [&]<class T>() {
           return a.size() == 0 || std::memcmp(a.data<T>().data(), b.data<T>().data(),
                                               static_cast<std::size_t>(a.bytes())) == 0;
         });
}

inline Array with_value(const Array& x, std::initializer_list<std::int64_t> flat, double value) {
  std::vector<double> values = x.to_vector();
  for (const std::int64_t at : flat) values[static_cast<std::size_t>(at)] = value;
  return Array::from(x.shape(), values, x.dtype());
}

// One set of extents, a mask, and options, on which both implementations run.
struct Case {
  std::int64_t batch = 2, heads = 4, kv_heads = 4, query = 5, key = 7, head_dim = 3, value_dim = 2;
  Mask mask;
  bool bias = false;
  bool bias_per_example = false;
  bool distance_bias = false;  // at positions with gaps, of each example its own
  double softcap = 0;
  double dropout = 0;
  double scale = 0;
  AttentionForm form = AttentionForm::automatic;

  // Stretches of five neighbours with gaps of two between; example b begins at b.
  [[nodiscard]] std::vector<std::int32_t> positions(std::int64_t time) const {
    std::vector<std::int32_t> positions;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t i = 0; i < time; ++i)
        positions.push_back(static_cast<std::int32_t>(b + i + i / 5 * 2));
    return positions;
  }
  [[nodiscard]] std::int64_t distances() const { return 3 * (query + key) + 2 * batch; }
  [[nodiscard]] std::vector<Array> inputs(DType dtype) const {
    std::vector<Array> arrays = {random_array({batch, query, heads * head_dim}, 1, dtype, -2, 2),
                                 random_array({batch, key, kv_heads * head_dim}, 2, dtype, -2, 2),
                                 random_array({batch, key, kv_heads * value_dim}, 3, dtype, -2, 2)};
    if (bias) {
      arrays.push_back(
          random_array({bias_per_example ? batch : 1, heads, query, key}, 4, dtype, -2, 2));
    }
    if (distance_bias) arrays.push_back(random_array({heads, distances()}, 5, dtype, -2, 2));
    return arrays;
  }
  [[nodiscard]] AttentionOptions options(std::span<HeadStatistics> statistics = {}) const {
    AttentionOptions options;
    options.heads = heads;
    options.kv_heads = kv_heads;
    options.scale = scale;
    options.softcap = softcap;
    options.mask = &mask;
    options.dropout = {.rate = dropout, .stream = RandomStream(11, 3, 5), .first_example = 6};
    options.statistics = statistics;
    options.form = form;
    return options;
  }
  // The table is the last of the inputs.
  template <class X>
  [[nodiscard]] DistanceBias distance_bias_of(const X& x, std::span<const std::int32_t> queries,
                                              std::span<const std::int32_t> keys) const {
    return {x.back(), -distances() / 2, queries, keys};
  }
  [[nodiscard]] Var run(std::span<const Var> x, bool textbook = false,
                        std::span<HeadStatistics> statistics = {}) const {
    const Var none;
    const Var& b = bias ? x[3] : none;
    AttentionOptions chosen = options(statistics);
    const std::vector<std::int32_t> queries = positions(query), keys = positions(key);
    if (distance_bias) chosen.distance_bias = distance_bias_of(x, queries, keys);
    return textbook ? attention_textbook(x[0], x[1], x[2], b, chosen)
                    : attention(x[0], x[1], x[2], b, chosen);
  }
  [[nodiscard]] DifferentiableFunction function(bool textbook = false) const {
    return [this, textbook](std::span<const Var> x) { return run(x, textbook); };
  }
};

inline Mask random_mask(const Case& c, std::int64_t heads, std::uint64_t seed) {
  const Array draw = random_array({c.batch, heads, c.query, c.key}, seed, DType::float64, 0, 1);
  std::vector<std::uint8_t> keep;
  for (const double u : draw.to_vector()) keep.push_back(u < 0.6);
  return Mask::custom(c.batch, heads, c.query, c.key, keep);
}

// Each in every form.
inline std::vector<Case> cases() {
  std::vector<Case> all(1);
  const auto add = [&](auto change) {
    Case c;
    change(c);
    all.push_back(c);
  };
  add([](Case& c) { c.mask = Mask::causal(); });
  add([](Case& c) { c.mask = Mask::causal(), c.query = 7, c.key = 5; });
  add([](Case& c) {
    c.mask = Mask::causal() & Mask::window(3), c.query = 37, c.key = 41, c.batch = 1,
    c.heads = c.kv_heads = 2;
  });
  add([](Case& c) { c.mask = Mask::window(2), c.query = c.key = 35, c.heads = c.kv_heads = 1; });
  add([](Case& c) { c.mask = random_mask(c, 4, 9), c.bias = true; });
  add([](Case& c) { c.mask = random_mask(c, 1, 10) & Mask::causal(), c.dropout = 0.3; });
  add([](Case& c) {
    c.mask = Mask::key_padding(2, {0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0}) & Mask::causal();
    c.bias = c.bias_per_example = true;
  });
  add([](Case& c) { c.kv_heads = 2, c.softcap = 1.5, c.bias = true, c.mask = Mask::causal(); });
  add([](Case& c) {
    c.kv_heads = 1, c.softcap = 0.7, c.dropout = 0.5, c.scale = 0.9, c.mask = random_mask(c, 4, 12);
  });
  add([](Case& c) {
    c.query = 19, c.key = 23, c.head_dim = 17, c.value_dim = 11, c.dropout = 0.2, c.bias = true;
    c.mask = Mask::causal();
  });
  add([](Case& c) { c.distance_bias = true, c.mask = Mask::causal(); });
  add([](Case& c) {
    c.distance_bias = c.bias = true, c.query = 19, c.key = 23, c.softcap = 2, c.dropout = 0.2;
    c.kv_heads = 2, c.mask = Mask::causal() & Mask::window(9);
  });
  add([](Case& c) { c.query = 1, c.mask = Mask::causal(); });
  add([](Case& c) { c.batch = c.heads = c.kv_heads = c.query = c.key = c.head_dim = 1; });
  const std::size_t count = all.size();
  for (std::size_t i = 0; i < count; ++i) {
    all[i].form = AttentionForm::stored;
    for (const AttentionForm form : {AttentionForm::tiled, AttentionForm::sparse}) {
      all.push_back(all[i]);
      all.back().form = form;
    }
  }
  return all;
}

inline void expect_statistics_near(const HeadStatistics& a, const HeadStatistics& b,
                                   double tolerance) {
  const auto near = [&](double x, double y, const char* name) {
    EXPECT_NEAR(x, y, tolerance * std::max(1.0, std::abs(y))) << name;
  };
  near(a.entropy_sum, b.entropy_sum, "entropy_sum");
  near(a.log_keys_sum, b.log_keys_sum, "log_keys_sum");
  near(a.normalized_sum, b.normalized_sum, "normalized_sum");
  near(a.effective_keys_sum, b.effective_keys_sum, "effective_keys_sum");
  near(a.max_probability_sum, b.max_probability_sum, "max_probability_sum");
  near(a.score_sum, b.score_sum, "score_sum");
  near(a.score_square_sum, b.score_square_sum, "score_square_sum");
  near(a.score_row_variance_sum, b.score_row_variance_sum, "score_row_variance_sum");
  near(a.score_count, b.score_count, "score_count");
  near(a.score_max_abs, b.score_max_abs, "score_max_abs");
  near(a.distance_sum, b.distance_sum, "distance_sum");
  EXPECT_EQ(a.rows_valid, b.rows_valid);
  EXPECT_EQ(a.rows_single, b.rows_single);
  EXPECT_EQ(a.rows_empty, b.rows_empty);
  EXPECT_EQ(a.violations, b.violations);
}

}  // namespace attune
