#include "attune/ops/key_value_buffer.h"

#include <algorithm>
#include <string>

#include "attune/ops/shaping.h"
#include "ops/attention_case.h"

// The reference throughout is attention() in its stored form over plain arrays, which
// tests/ops/attention_values_test.cpp holds against naive loops.
namespace attune::key_value_buffer_test {

Array tokens_of(const Array& x, std::int64_t begin, std::int64_t end) {
  return slice(Var(x), 1, begin, end).value();
}

// A buffer with room for 3 more than the tokens it is given, `chunk` at a time.
KeyValueBuffer filled_buffer(const Array& keys, const Array& values, std::int64_t chunk) {
  const std::int64_t time = keys.shape()[1];
  KeyValueBuffer buffer(keys.shape()[0], time + 3, keys.shape()[2], values.shape()[2],
                        keys.dtype());
  for (std::int64_t begin = 0; begin < time; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, time);
    buffer.write(begin, tokens_of(keys, begin, end), tokens_of(values, begin, end));
  }
  return buffer;
}

TEST(KeyValueBuffer, GivesBackWhatWasWrittenInAnyChunks) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array keys = random_array({2, 131, 7}, 1, dtype);
    const Array values = random_array({2, 131, 5}, 2, dtype);
    for (const std::int64_t chunk : {1, 13, 64, 131}) {
      const KeyValueBuffer buffer = filled_buffer(keys, values, chunk);
      EXPECT_TRUE(bitwise_equal(buffer.copy_keys(131), keys)) << chunk;
      EXPECT_TRUE(bitwise_equal(buffer.copy_values(131), values)) << chunk;
      EXPECT_TRUE(bitwise_equal(buffer.copy_keys(70), tokens_of(keys, 0, 70))) << chunk;
    }
  }
}

TEST(KeyValueBuffer, AcceptsNoTokensAndNoRoom) {
  KeyValueBuffer buffer(2, 0, 3, 5, DType::float32);
  buffer.write(0, Array::zeros({2, 0, 3}, DType::float32), Array::zeros({2, 0, 5}, DType::float32));
  EXPECT_EQ(buffer.copy_keys(0).shape(), (Shape{2, 0, 3}));
}

TEST(KeyValueBuffer, RefusesWhatDoesNotFitBeforeItWrites) {
  KeyValueBuffer buffer(1, 4, 1, 1, DType::float64);
  const Array two = column({7, 8});
  buffer.write(0, column({1, 2, 3}), column({4, 5, 6}));
  expect_throws<ValueError>([&] { buffer.write(3, two, two); },
                            "KV-cache: 2 tokens do not fit behind 3 filled of a capacity of 4");
  expect_throws<ShapeError>([&] { buffer.write(2, two, column({1})); },
                            "KV-cache: values are float64 [1, 1, 1], expected float64 [1, 2, 1]");
  expect_throws<ShapeError>(
      [&] {
        buffer.write(2, column({1, 2}, DType::float32), two);
      },
      "KV-cache: keys are float32 [1, 2, 1], expected float64 [1, 2, 1]");
  expect_throws<ShapeError>([&] { buffer.write(2, Array::scalar(1, DType::float64), two); },
                            "KV-cache: keys are float64 [], expected float64 [1, 0, 1]");
  expect_near(buffer.copy_keys(3), {1, 2, 3}, 0);
}

// Masks, biases, softcap, shared key heads, dropout, statistics.
TEST(AttentionOverCache, IsAttentionBitForBit) {
  int number = 0;
  for (Case c : cases()) {
    c.form = AttentionForm::stored;
    for (const DType dtype : {DType::float32, DType::float64}) {
      SCOPED_TRACE("case " + std::to_string(number) + " " + std::string(to_string(dtype)));
      const std::vector<Array> x = c.inputs(dtype);
      const std::vector<Var> vars(x.begin(), x.end());
      std::vector<HeadStatistics> expected(static_cast<std::size_t>(c.heads)), actual(expected);
      const Array whole = c.run(vars, false, expected).value();
      const KeyValueBuffer buffer = filled_buffer(x[1], x[2], 2);
      AttentionOptions options = c.options(actual);
      const std::vector<std::int32_t> queries = c.positions(c.query), keys = c.positions(c.key);
      if (c.distance_bias) options.distance_bias = c.distance_bias_of(x, queries, keys);
      const Array cached =
          attention_over_cache(x[0], buffer, c.key, c.bias ? x[3] : Array(), options);
      EXPECT_TRUE(bitwise_equal(cached, whole));
      for (std::size_t h = 0; h < expected.size(); ++h)
        expect_statistics_near(actual[h], expected[h], 0);
    }
    ++number;
  }
}

// Across blocks of the buffer and tiles of rows; the last heads end within a panel.
TEST(AttentionOverCache, TokenByTokenAndChunksAreOnePassBitForBit) {  // B05
  constexpr std::int64_t kTime = 150;
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const Mask& mask : {Mask::causal(), Mask::causal() & Mask::window(29)}) {
      Case c;
      c.heads = 6, c.kv_heads = 3, c.query = c.key = kTime, c.head_dim = 5, c.value_dim = 11;
      c.mask = mask;
      const std::vector<Array> x = c.inputs(dtype);
      const Array whole = c.run(std::vector<Var>(x.begin(), x.end())).value();
      for (const std::int64_t chunk : {1, 3, 17, 64}) {
        KeyValueBuffer buffer(2, kTime, 15, 33, dtype);
        for (std::int64_t begin = 0; begin < kTime; begin += chunk) {
          const std::int64_t end = std::min(begin + chunk, kTime);
          buffer.write(begin, tokens_of(x[1], begin, end), tokens_of(x[2], begin, end));
          const Array part =
              attention_over_cache(tokens_of(x[0], begin, end), buffer, end, {}, c.options());
          ASSERT_TRUE(bitwise_equal(part, tokens_of(whole, begin, end)))
              << "chunk " << chunk << " at " << begin;
        }
      }
    }
  }
}

TEST(AttentionOverCache, DoesNotSeeWhatLiesBehindTheTokensItIsGiven) {  // B02
  const Array keys = random_array({2, 70, 6}, 1), values = random_array({2, 70, 6}, 2);
  const Array query = random_array({2, 1, 6}, 3);
  AttentionOptions options;
  options.heads = 2;
  KeyValueBuffer buffer(2, 90, 6, 6, DType::float64);
  const Array nothing = Array::full({2, 90, 6}, kNan, DType::float64);
  buffer.write(0, nothing, nothing);
  buffer.write(0, keys, values);
  EXPECT_TRUE(bitwise_equal(attention_over_cache(query, buffer, 70, {}, options),
                            attention(query, keys, values, {}, options).value()));
}

TEST(AttentionOverCache, MaskedTokensMayHoldAnything) {
  const std::vector<std::uint8_t> keep = {0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1};
  const Mask mask = Mask::key_padding(2, keep);
  const Array keys = random_array({2, 6, 4}, 1), values = random_array({2, 6, 6}, 2);
  const Array query = random_array({2, 1, 4}, 3);
  AttentionOptions options;
  options.heads = 2;
  options.mask = &mask;
  std::vector<double> bad_keys = keys.to_vector(), bad_values = values.to_vector();
  for (std::size_t token = 0; token < keep.size(); ++token) {
    if (keep[token] != 0) continue;
    std::fill_n(bad_keys.begin() + static_cast<std::ptrdiff_t>(token) * 4, 4, kNan);
    std::fill_n(bad_values.begin() + static_cast<std::ptrdiff_t>(token) * 6, 6, kInfinity);
  }
  const KeyValueBuffer buffer =
      filled_buffer(Array::from(keys.shape(), bad_keys, DType::float64),
                    Array::from(values.shape(), bad_values, DType::float64), 1);
  EXPECT_TRUE(bitwise_equal(attention_over_cache(query, buffer, 6, {}, options),
                            attention(query, keys, values, {}, options).value()));
}

TEST(AttentionOverCache, ARowWithoutAKeyIsZero) {
  const KeyValueBuffer buffer = filled_buffer(column({1, 2}), column({3, 4}), 1);
  const Mask nothing = Mask::key_padding(1, {0, 0});
  AttentionOptions options;
  expect_near(attention_over_cache(column({5}), buffer, 0, {}, options), {0}, 0);
  options.mask = &nothing;
  expect_near(attention_over_cache(column({5}), buffer, 2, {}, options), {0}, 0);
}

TEST(AttentionOverCache, RefusesWhatDoesNotFit) {
  const KeyValueBuffer buffer(2, 4, 6, 6, DType::float64);
  AttentionOptions options;
  options.heads = 2;
  const auto run = [&](const Array& query, std::int64_t time, const Array& bias = {}) {
    static_cast<void>(attention_over_cache(query, buffer, time, bias, options));
  };
  const Array query = random_array({2, 1, 6}, 1);
  expect_throws<ValueError>([&] { run(query, 5); },
                            "attention: 5 tokens of a KV-cache with a capacity of 4");
  expect_throws<ShapeError>(
      [&] {
        run(random_array({1, 1, 6}, 1), 3);
      },
      "attention: query [1, 1, 6], key [2, 3, 6] and value [2, 3, 6] do not fit, expected [batch, "
      "query, heads * head_dim], [batch, key, kv_heads * head_dim] and [batch, key, kv_heads * "
      "value_dim]");
  expect_throws<ShapeError>(
      [&] { run(query.cast(DType::float32), 3); },
      "attention: query is float32, key float64, value float64, expected one dtype");
  expect_throws<ShapeError>(
      [&] {
        run(query, 3, random_array({1, 2, 1, 4}, 1));
      },
      "attention: bias [1, 2, 1, 4] does not fit scores [batch 2, heads 2, query 1, key 3]");
}

}  // namespace attune::key_value_buffer_test
