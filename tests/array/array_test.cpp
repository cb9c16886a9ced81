#include "attune/array/array.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "attune/core/error.h"

namespace attune::array_test {

template <class Error, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

template <class A>
concept CanRead = requires(A&& array) {
  std::forward<A>(array).template data<float>();
};
template <class A>
concept CanWrite = requires(A&& array) {
  std::forward<A>(array).template mutable_data<float>();
};

// The storage of a temporary would be gone at the end of the statement.
static_assert(CanRead<Array&> && CanRead<const Array&>);
static_assert(!CanRead<Array> && !CanRead<const Array>);
static_assert(CanWrite<Array&>);
static_assert(!CanWrite<Array> && !CanWrite<const Array&>);

TEST(Array, HoldsItsValuesInRowMajorOrder) {
  const Array array = Array::from({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(array.shape(), (Shape{2, 3}));
  EXPECT_EQ(array.dtype(), DType::float32);
  EXPECT_EQ(array.size(), 6);
  EXPECT_EQ(array.bytes(), 24);
  EXPECT_EQ(array.at({1, 0}), 4);
  EXPECT_EQ(array.at({0, 2}), 3);
  EXPECT_EQ(array.data<float>()[5], 6.0f);
  EXPECT_EQ(array.to_vector(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST(Array, ValuesThatDoNotFillTheShapeAreAnError) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)Array::from({2, 3}, {1, 2});
            }),
            "array: 2 values do not fill [2, 3]");
}

TEST(Array, DefaultIsNullWithoutElements) {
  const Array null;
  EXPECT_TRUE(null.is_null());
  EXPECT_EQ(null.size(), 0);
  EXPECT_FALSE(null.is_shared());
  EXPECT_TRUE(null.data<float>().empty());
  EXPECT_TRUE(null.clone().is_null());
  EXPECT_THROW((void)null.reshaped({}), ShapeError);
  EXPECT_THROW((void)null.item(), ShapeError);
}

TEST(Array, AScalarHasOneElementAndAnEmptyArrayNone) {
  EXPECT_EQ(Array::scalar(2.5, DType::float64).item(), 2.5);
  const Array empty = Array::zeros({3, 0, 2}, DType::float32);
  EXPECT_FALSE(empty.is_null());
  EXPECT_EQ(empty.size(), 0);
  EXPECT_TRUE(empty.data<float>().empty());
  EXPECT_EQ(empty.clone().shape(), (Shape{3, 0, 2}));
}

TEST(Array, StorageIsAlignedTo64Bytes) {
  for (const std::int64_t size : {1, 3, 17, 100, 1001, 65537}) {
    const Array array = Array::zeros({size}, DType::float32);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data<float>().data()) % 64, 0u) << size;
  }
}

TEST(Array, ACopySharesTheStorage) {
  const Array array = Array::from({2}, {1, 2});
  EXPECT_FALSE(array.is_shared());
  {
    const Array copy = array;
    EXPECT_TRUE(array.is_shared());
    EXPECT_EQ(copy.data<float>().data(), array.data<float>().data());
  }
  EXPECT_FALSE(array.is_shared());
}

TEST(Array, WritingWhileSharedThrowsAndChangesNothing) {
  Array array = Array::from({2, 3}, {1, 2, 3, 4, 5, 6});
  Array copy = array;
  EXPECT_EQ(message_of<UsageError>([&] { (void)array.mutable_data<float>(); }),
            "array: mutable_data() of [2, 3] while another Array shares its storage; clone() it "
            "first");
  EXPECT_THROW((void)copy.mutable_data<float>(), UsageError);
  copy = Array();
  array.mutable_data<float>()[0] = 7;
  EXPECT_EQ(array.at({0, 0}), 7);
}

TEST(Array, ACloneHasStorageOfItsOwn) {
  Array array = Array::from({2}, {1, 2}, DType::float64);
  Array clone = array.clone();
  clone.mutable_data<double>()[1] = 5;
  EXPECT_EQ(array.at({1}), 2);
  EXPECT_EQ(clone.at({1}), 5);
}

TEST(Array, MovingTakesTheStorageAndLeavesNull) {
  Array array = Array::from({2}, {1, 2});
  const float* storage = array.data<float>().data();
  Array moved = std::move(array);
  EXPECT_TRUE(array.is_null());  // NOLINT: what a moved-from array is
  EXPECT_EQ(array.size(), 0);    // NOLINT
  EXPECT_FALSE(moved.is_shared());
  EXPECT_EQ(moved.data<float>().data(), storage);
}

TEST(Array, AssigningAnArrayToItselfKeepsIt) {
  Array array = Array::from({2}, {1, 2});
  const Array& same = array;
  array = same;
  EXPECT_FALSE(array.is_shared());
  EXPECT_EQ(array.to_vector(), (std::vector<double>{1, 2}));
}

TEST(Array, ReshapedSharesTheElements) {
  const Array array = Array::from({2, 3}, {1, 2, 3, 4, 5, 6});
  const Array reshaped = array.reshaped({3, 1, 2});
  EXPECT_EQ(reshaped.data<float>().data(), array.data<float>().data());
  EXPECT_EQ(reshaped.at({2, 0, 1}), 6);
  EXPECT_EQ(message_of<ShapeError>([&] { (void)array.reshaped({4}); }),
            "reshape: [2, 3] does not have the 4 elements of [4]");
}

TEST(Array, CastRoundsToNearest) {
  const double third = 1.0 / 3.0;
  const Array wide = Array::full({5}, third, DType::float64);
  const Array narrow = wide.cast(DType::float32);
  EXPECT_EQ(narrow.dtype(), DType::float32);
  EXPECT_EQ(narrow.at({4}), static_cast<double>(static_cast<float>(third)));
  EXPECT_EQ(narrow.cast(DType::float64).at({0}), narrow.at({0}));
  const Array same = wide.cast(DType::float64);
  EXPECT_EQ(same.data<double>().data(), wide.data<double>().data());
}

TEST(Array, ReadingAnotherTypeIsAnError) {
  Array array = Array::zeros({2}, DType::float64);
  EXPECT_EQ(message_of<ShapeError>([&] { (void)array.data<float>(); }),
            "array: a float64 array was read as float32");
  EXPECT_THROW((void)array.mutable_data<float>(), ShapeError);
}

TEST(Array, AnIndexOutsideIsAnError) {
  const Array array = Array::zeros({2, 3}, DType::float32);
  EXPECT_EQ(message_of<ValueError>([&] {
              (void)array.at({1, 3});
            }),
            "array: index 3 of axis 1 is outside [2, 3]");
  EXPECT_THROW((void)array.at({-1, 0}), ValueError);
  EXPECT_THROW((void)array.at({1}), ValueError);
  EXPECT_EQ(message_of<ShapeError>([&] { (void)array.item(); }),
            "array: item() of [2, 3], not one element");
}

// 2^62 elements are a valid shape, but 2^64 bytes wrap to 0 in 64 bits.
TEST(Array, ASizeInBytesThatOverflowsIsOutOfMemory) {
  const std::int64_t side = std::int64_t{1} << 31;
  EXPECT_EQ(message_of<Error>([&] {
              (void)Array::uninitialized({side, side}, DType::float32);
            }),
            "out of memory: an array [2147483648, 2147483648] was asked for");
  EXPECT_THROW((void)Array::uninitialized({side, side / 4}, DType::float64), Error);
}

TEST(Array, MoreThanTheSystemHasIsAnErrorAndThePoolGoesOn) {
  EXPECT_THROW((void)Array::uninitialized({std::int64_t{1} << 45}, DType::float32), Error);
  EXPECT_EQ(Array::full({3}, 2, DType::float32).at({2}), 2);
}

#ifndef NDEBUG
TEST(Array, DebugBuildsFillWhatIsNotInitializedWithNaN) {
  { const Array used = Array::full({37}, 1, DType::float64); }
  const Array recycled = Array::uninitialized({37}, DType::float64);
  for (const double value : recycled.data<double>()) EXPECT_TRUE(std::isnan(value));
  const Array narrow = Array::uninitialized({5}, DType::float32);
  for (const float value : narrow.data<float>()) EXPECT_TRUE(std::isnan(value));
}
#endif

}  // namespace attune::array_test
