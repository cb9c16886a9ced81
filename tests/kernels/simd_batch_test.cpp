#include "kernels/simd_batch.h"

#include <gtest/gtest.h>

#include "attune/core/random.h"

namespace attune::kernels::simd_batch_test {

template <class T>
class SimdBatch : public testing::Test {
 public:
  // Numbers whose sum depends on the order.
  static T number(std::uint64_t i) {
    return static_cast<T>(1e3 * RandomStream(1, 2, 3).normal(i) / 7);
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SimdBatch, Types);

// An entropy log may add its sums up eight at a time; the weights that share one must not notice.
TYPED_TEST(SimdBatch, LaneSumsAreBitwiseThoseOfOneVectorAtATime) {
  using T = TypeParam;
  T numbers[8 * kLanes<T>];
  for (std::int64_t i = 0; i < 8 * kLanes<T>; ++i)
    numbers[i] = TestFixture::number(static_cast<std::uint64_t>(i));
  Batch<T> values[8];
  T totals[8];
  for (std::int64_t i = 0; i < 8; ++i)
    values[i] = Batch<T>::load_unaligned(numbers + i * kLanes<T>);
  lane_sums(values, totals);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(totals[i], lane_sum(values[i])) << i;
}

TYPED_TEST(SimdBatch, ColumnsHoldARowALane) {
  using T = TypeParam;
  T rows[8 * kLanes<T>];
  for (std::int64_t i = 0; i < 8 * kLanes<T>; ++i) rows[i] = static_cast<T>(i);
  Batch<T> columns[8];
  load_columns(rows, columns);
  for (std::int64_t c = 0; c < 8; ++c) {
    T lanes[kLanes<T>];
    columns[c].store_unaligned(lanes);
    for (std::int64_t r = 0; r < kLanes<T>; ++r) EXPECT_EQ(lanes[r], static_cast<T>(8 * r + c));
  }
}

}  // namespace attune::kernels::simd_batch_test
