#include "attune/nn/kv_cache.h"

#include "nn/layer_test.h"

namespace attune::kv_cache_test {

TEST(KvCache, GivesBackWhatWasAppendedInOrder) {
  KvCache cache(2, 2, 5, 3, 2, DType::float64);
  const Array first = random_array({2, 2, 3}, 1), second = random_array({2, 1, 3}, 2);
  const Array values = random_array({2, 2, 2}, 3), more = random_array({2, 1, 2}, 4);
  cache.append(1, first, values);
  cache.advance(Positions::range(0, 2));
  cache.append(1, second, more);
  const Array keys = cache.keys(1, 1);
  ASSERT_EQ(keys.shape(), (Shape{2, 3, 3}));
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t c = 0; c < 3; ++c) {
      EXPECT_EQ(keys.at({b, 1, c}), first.at({b, 1, c}));
      EXPECT_EQ(keys.at({b, 2, c}), second.at({b, 0, c}));
    }
    EXPECT_EQ(cache.values(1, 1).at({b, 2, 1}), more.at({b, 0, 1}));
  }
}

TEST(KvCache, KnowsThePositionsOfItsTokens) {
  KvCache cache(1, 1, 4, 1, 1, DType::float32);
  cache.advance(Positions::range(7, 2));
  cache.advance(Positions::range(20, 1));
  EXPECT_EQ(cache.positions(), (Positions{1, 3, {7, 8, 20}}));
  EXPECT_EQ(cache.filled(), 3);
  cache.clear();
  EXPECT_EQ(cache.filled(), 0);
  EXPECT_EQ(cache.positions().time, 0);
}

TEST(KvCache, ExamplesShareTheirPositionsUntilTheyStandApart) {
  KvCache cache(1, 2, 4, 1, 1, DType::float32);
  cache.advance(Positions::range(7, 2));
  EXPECT_EQ(cache.positions(), (Positions{1, 2, {7, 8}}));
  cache.advance(Positions{2, 1, {9, 3}});
  cache.advance(Positions::range(20, 1));
  EXPECT_EQ(cache.positions(), (Positions{2, 4, {7, 8, 9, 20, 7, 8, 3, 20}}));
  cache.clear();
  cache.advance(Positions::range(5, 1));
  EXPECT_EQ(cache.positions(), (Positions{1, 1, {5}}));
}

TEST(KvCache, RefusesPositionsThatDoNotFit) {
  KvCache cache(1, 2, 4, 1, 1, DType::float32);
  expect_throws<ShapeError>(
      [&] {
        cache.advance(Positions{3, 1, {1, 2, 3}});
      },
      "KV-cache: positions of 3 examples, expected 1 or 2");
  cache.advance(Positions::range(0, 3));
  expect_throws<ValueError>([&] { cache.advance(Positions::range(3, 2)); },
                            "KV-cache: 2 positions do not fit behind 3 filled of a capacity of 4");
  EXPECT_EQ(cache.filled(), 3);
}

TEST(KvCache, TheLastSlotIsUsable) {  // B16
  KvCache cache(1, 1, 2, 1, 1, DType::float64);
  cache.append(0, Array::full({1, 1, 1}, 3, DType::float64),
               Array::zeros({1, 1, 1}, DType::float64));
  cache.advance(Positions::range(0, 1));
  cache.append(0, Array::full({1, 1, 1}, 4, DType::float64),
               Array::zeros({1, 1, 1}, DType::float64));
  cache.advance(Positions::range(1, 1));
  expect_near(cache.keys(0, 0), {3, 4}, 0);
}

TEST(KvCache, RefusesTokensBeyondItsCapacityBeforeItWrites) {  // B16
  KvCache cache(1, 1, 3, 1, 1, DType::float64);
  cache.append(0, Array::full({1, 2, 1}, 3, DType::float64),
               Array::zeros({1, 2, 1}, DType::float64));
  cache.advance(Positions::range(0, 2));
  cache.append(0, Array::full({1, 1, 1}, 9, DType::float64),
               Array::zeros({1, 1, 1}, DType::float64));
  expect_throws<ValueError>(
      [&] {
        cache.append(0, Array::full({1, 2, 1}, 5, DType::float64),
                     Array::zeros({1, 2, 1}, DType::float64));
      },
      "KV-cache: 2 tokens do not fit behind 2 filled of a capacity of 3");
  expect_near(cache.keys(0, 1), {3, 3, 9}, 0);
}

TEST(KvCache, RefusesOtherShapesAndTypes) {
  KvCache cache(1, 2, 3, 4, 5, DType::float64);
  const Array keys = Array::zeros({2, 1, 4}, DType::float64);
  const Array values = Array::zeros({2, 1, 5}, DType::float64);
  expect_throws<ShapeError>(
      [&] {
        cache.append(0, Array::zeros({3, 1, 4}, DType::float64), values);
      },
      "KV-cache: keys are float64 [3, 1, 4], expected float64 [2, 1, 4]");
  expect_throws<ShapeError>([&] { cache.append(0, keys, keys); },
                            "KV-cache: values are float64 [2, 1, 4], expected float64 [2, 1, 5]");
  expect_throws<ShapeError>(
      [&] {
        cache.append(0, Array::zeros({2, 1, 4}, DType::float32), values);
      },
      "KV-cache: keys are float32 [2, 1, 4], expected float64 [2, 1, 4]");
  expect_throws<ValueError>([&] { cache.append(1, keys, values); },
                            "KV-cache: layer 1 is outside its 1 layers");
}

}  // namespace attune::kv_cache_test
