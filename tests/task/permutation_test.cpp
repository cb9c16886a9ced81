#include "task/permutation.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace attune::permutation_test {

std::vector<std::uint64_t> order(std::uint32_t epoch, std::uint64_t size) {
  const Permutation permutation(Randomness{7, epoch}.stream("test"), size);
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = 0; i < size; ++i) result.push_back(permutation(i));
  return result;
}

TEST(Permutation, VisitsEachNumberOnce) {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 16, 17, 97, 1000, 4096, 4097})
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
      const std::vector<std::uint64_t> visited = order(epoch, size);
      const std::set<std::uint64_t> distinct(visited.begin(), visited.end());
      EXPECT_EQ(distinct.size(), size);
      EXPECT_LT(*distinct.rbegin(), size);
    }
}

TEST(Permutation, EveryOrderOfAFewOccurs) {
  for (const auto& [size, orders] : {std::pair{2, 2}, std::pair{3, 6}, std::pair{4, 24}}) {
    std::set<std::vector<std::uint64_t>> seen;
    for (std::uint32_t epoch = 0; epoch < 2000; ++epoch)
      seen.insert(order(epoch, static_cast<std::uint64_t>(size)));
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(orders)) << size;
  }
}

TEST(Permutation, FirstPlaceIsSpreadOverAll) {
  constexpr int kSize = 11;
  std::vector<int> counts(kSize, 0);
  for (std::uint32_t epoch = 0; epoch < 11000; ++epoch)
    ++counts[Permutation(Randomness{7, epoch}.stream("test"), kSize)(0)];
  for (const int count : counts) EXPECT_NEAR(count, 1000, 5 * 30);  // five standard deviations
}

}  // namespace attune::permutation_test
