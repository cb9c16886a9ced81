#include "attune/core/dtype.h"

#include <gtest/gtest.h>

namespace attune::dtype_test {

TEST(DType, DispatchChoosesTheTypeOfTheDtype) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    dispatch(dtype, [&]<class T>() {
      EXPECT_EQ(dtype_of<T>, dtype);
      EXPECT_EQ(bytes_of(dtype), static_cast<std::int64_t>(sizeof(T)));
    });
  }
}

TEST(DType, DispatchReturnsWhatTheFunctionReturns) {
  EXPECT_EQ(dispatch(DType::float64, []<class T>() { return sizeof(T); }), 8u);
}

TEST(DType, HasTheNameOfItsNumpyCounterpart) {
  EXPECT_EQ(to_string(DType::float32), "float32");
  EXPECT_EQ(to_string(DType::float64), "float64");
}

}  // namespace attune::dtype_test
