#include "attune/ops/dropout.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "ops/op_test.h"

namespace attune::dropout_test {

RandomStream stream_of(std::uint64_t seed) { return Randomness{seed, 5}.stream("test.dropout"); }

// From the definition: word c % 4 at index (first_row + r) ceil(columns / 4) + c / 4, below rate
// 2^32.
std::vector<double> naive_factors(std::int64_t rows, std::int64_t columns, double rate,
                                  const RandomStream& stream, std::int64_t first_row) {
  std::vector<double> factors;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto index = static_cast<std::uint64_t>((first_row + r) * ((columns + 3) / 4) + c / 4);
      const double u = stream.bits(index)[static_cast<std::size_t>(c % 4)] / std::ldexp(1.0, 32);
      factors.push_back(u < rate ? 0 : 1 / (1 - rate));
    }
  }
  return factors;
}

TEST(Dropout, DropsByTheWordsAtGlobalCoordinates) {
  const RandomStream stream = stream_of(11);
  for (const std::int64_t columns : {1, 3, 4, 5, 64, 1021, 2048, 4099}) {
    for (const std::int64_t first_row : {0, 17}) {
      const Array ones = Array::full({3, columns}, 1, DType::float64);
      expect_near(dropout(ones, 0.3, stream, first_row).value(),
                  naive_factors(3, columns, 0.3, stream, first_row), 1e-15);
      expect_near(dropout(ones.cast(DType::float32), 0.3, stream, first_row).value(),
                  naive_factors(3, columns, 0.3, stream, first_row), 1e-6);
    }
  }
}

TEST(Dropout, PartsOfABatchDropWhatTheWholeDrops) {
  const RandomStream stream = stream_of(2);
  const std::vector<double> whole =
      dropout(Array::full({7, 2, 5}, 1, DType::float32), 0.5, stream).value().to_vector();
  // Examples 3 to 6, each of 2 rows.
  const std::vector<double> part =
      dropout(Array::full({4, 2, 5}, 1, DType::float32), 0.5, stream, 6).value().to_vector();
  EXPECT_EQ(part, std::vector<double>(whole.begin() + 30, whole.end()));
}

TEST(Dropout, KeepsTheExpectedShareAndTheMean) {
  constexpr std::int64_t kCount = 200000;
  for (const double rate : {0.1, 0.5, 0.9}) {
    const Array y = dropout(Array::full({kCount}, 1, DType::float64), rate, stream_of(3)).value();
    std::int64_t dropped = 0;
    double sum = 0;
    for (const double value : y.to_vector()) {
      dropped += value == 0 ? 1 : 0;
      sum += value;
    }
    // Five standard deviations of the binomial distribution.
    const double deviation = 5 * std::sqrt(rate * (1 - rate) / kCount);
    EXPECT_NEAR(static_cast<double>(dropped) / kCount, rate, deviation);
    EXPECT_NEAR(sum / kCount, 1, deviation / (1 - rate));
  }
}

TEST(Dropout, StreamsOfOtherSeedsDropOtherElements) {
  const Array ones = Array::full({64}, 1, DType::float32);
  EXPECT_NE(dropout(ones, 0.5, stream_of(1)).value().to_vector(),
            dropout(ones, 0.5, stream_of(2)).value().to_vector());
}

TEST(Dropout, GradientsMatchFiniteDifferences) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 3, 8}}) {
    for (const double rate : {0.25, 1.0}) {
      expect_gradients_match(
          [rate](std::span<const Var> in) { return dropout(in[0], rate, stream_of(4), 2); },
          {random_array(shape, 9, DType::float64)});
    }
  }
}

TEST(Dropout, RateZeroIsTheSameVar) {  // B09
  Tape tape;
  const Var x = tape.leaf(Array::full({3}, 2, DType::float32));
  const Var y = dropout(x, 0, stream_of(1));
  EXPECT_EQ(y.slot(), x.slot());
  EXPECT_EQ(tape.size(), 0U);
}

TEST(Dropout, RateOneGivesZerosAndNoGradient) {  // B09
  const double infinity = std::numeric_limits<double>::infinity();
  Tape tape;
  const Var x = tape.leaf(Array::from({3}, {1, infinity, 3}));
  const Var y = dropout(x, 1, stream_of(1));
  expect_near(y.value(), std::vector<double>{0, 0, 0}, 0);
  const Gradients gradients = tape.backward(y, Array::from({3}, {1, infinity, 2}));
  expect_near(gradients[x], std::vector<double>{0, 0, 0}, 0);
}

TEST(Dropout, ADroppedInfinityIsZero) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double value :
       dropout(Array::full({101}, infinity, DType::float32), 0.5, stream_of(1)).value().to_vector())
    EXPECT_TRUE(value == 0 || value == infinity) << value;
}

TEST(Dropout, TakesEmptyArrays) {
  EXPECT_EQ(dropout(Array::zeros({0, 3}, DType::float32), 0.5, stream_of(1)).shape(),
            (Shape{0, 3}));
  EXPECT_EQ(dropout(Array::zeros({3, 0}, DType::float32), 0.5, stream_of(1)).shape(),
            (Shape{3, 0}));
}

TEST(Dropout, RefusesRatesOutsideZeroToOne) {  // B09
  const Array x = Array::zeros({3}, DType::float32);
  for (const auto& [rate, text] : {std::pair{-0.1, "-0.1"}, {1.5, "1.5"}, {std::nan(""), "nan"}}) {
    try {
      (void)dropout(x, rate, stream_of(1));
      FAIL() << rate;
    } catch (const ValueError& error) {
      EXPECT_EQ(error.what(), "dropout: rate " + std::string(text) + " is outside [0, 1]");
    }
  }
  EXPECT_THROW((void)dropout(x, 0.5, stream_of(1), -1), ValueError);
}

}  // namespace attune::dropout_test
