#include "attune/array/xtensor.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xview.hpp>

#include <gtest/gtest.h>

#include "attune/ops/arithmetic.h"
#include "attune/ops/matmul.h"
#include "attune/ops/reduce.h"
#include "cli/run_binary.h"
#include "ops/op_test.h"

// Kinds of fault that others reported, in the numeric back end (B48 to B52). What is asked of
// xtensor and of products by themselves are tests of the array and of matmul.
namespace attune::backend_cases_test {

using cli_test::Words;
using cli_test::Workspace;

template <class A>
concept CanView = requires(A&& array) {
  view<float>(std::forward<A>(array));
};
template <class A>
concept CanViewForWriting = requires(A&& array) {
  mutable_view<float>(std::forward<A>(array));
};

// The functions that give an xtensor expression take no array that is gone after them.
static_assert(CanView<const Array&> && CanView<Array&>);
static_assert(!CanView<Array>);
static_assert(CanViewForWriting<Array&>);
static_assert(!CanViewForWriting<Array>);

// ln(e^0 + e^0), of operands that are gone when it is read, twice with other work between.
TEST(LifetimeCases, ResultsOutliveTheirOperands) {  // B48
  const auto log_sum_exp = [](std::initializer_list<double> x) {
    return logsumexp(
        Var(Array::from({static_cast<std::int64_t>(x.size())}, x, DType::float64)) + 0.0, 0);
  };
  const Var first = log_sum_exp({0, 0});
  { const Array other = Array::full({1000}, 7, DType::float64); }
  const Var second = log_sum_exp({0, 0, 0});
  EXPECT_NEAR(first.value().item(), 0.693147, 1e-6);
  EXPECT_NEAR(second.value().item(), 1.098612, 1e-6);
}

// Views with negative and large strides, transposes, and rows and columns of one, on their way into
// products.
TEST(StrideCases, ViewsGoIntoProductsAsTheyRead) {  // B49
  const Array m = Array::from({3, 2}, {1, 2, 3, 4, 5, 6});
  const Array column = array_from<float>(xt::view(view<float>(m), xt::newaxis(), xt::all(), 0));
  const Array reversed = array_from<float>(xt::view(
      view<float>(m), xt::range(xt::placeholders::_, xt::placeholders::_, -1), xt::range(1, 2)));
  EXPECT_EQ(column.shape(), (Shape{1, 3}));
  EXPECT_EQ(reversed.shape(), (Shape{3, 1}));
  expect_near(matmul(column, reversed).value(), std::vector<double>{28}, 0);  // 1 6 + 3 4 + 5 2
  for (std::int64_t n = 1; n <= 9; ++n) {
    std::vector<double> numbers(static_cast<std::size_t>(n));
    double squares = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<double>(i) - 2.5;
      squares += numbers[i] * numbers[i];
    }
    const Array row = Array::from({1, n}, numbers, DType::float32);
    const Array transposed = array_from<float>(xt::transpose(view<float>(row)));
    expect_near(matmul(row, transposed).value(), std::vector<double>{squares}, 1e-6);
    const Array outer = matmul(transposed, row).value();
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        EXPECT_EQ(outer.at({i, j}), row.at({0, i}) * row.at({0, j}));
  }
}

// A variable of the environment while it lives; null: none.
class Environment final {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    was_set_ = std::getenv(name) != nullptr;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Environment() { was_set_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

Words twenty_steps(const std::string& run, const char* threads) {
  Words words = cli_test::tiny_run(run);
  words[10] = "--max-iters=20";
  words.back() = std::string("--threads=") + threads;
  return words;
}

// Twice each; the case allows 1e-4 between settings, we give the same bits.
TEST(ThreadCases, ThreadsOfTheBlasChangeNoBit) {  // B52
  const Workspace space;
  ASSERT_EQ(space.run(twenty_steps("first", "2")).code, 0);
  int number = 0;
  for (const char* threads : {"1", "2", static_cast<const char*>(nullptr)}) {
    for (int again = 0; again < 2; ++again) {
      const Environment openblas("OPENBLAS_NUM_THREADS", threads);
      const Environment openmp("OMP_NUM_THREADS", threads);
      const std::string run = std::to_string(number++);
      ASSERT_EQ(space.run(twenty_steps(run, "2")).code, 0);
      EXPECT_EQ(space.hash(run), space.hash("first"));
      EXPECT_EQ(space.log(run + "/metrics.jsonl"), space.log("first/metrics.jsonl"));
    }
  }
}

TEST(ThreadCases, ThreadsTakeEffectAndAreLoggedWithTheBlas) {  // B52
  const Workspace space;
  for (const char* threads : {"1", "2"}) {
    const cli_test::Result result = space.run(twenty_steps(threads, threads));
    ASSERT_EQ(result.code, 0);
    const std::string shown = std::string("cpu, ") + threads + " thread";
    EXPECT_NE(result.out.find(shown), std::string::npos) << result.out;
    EXPECT_EQ(std::to_string(space.summary(threads).at("threads").get<int>()), threads);
    const std::string blas = space.summary(threads).at("blas");
    EXPECT_NE(blas.find("OpenBLAS"), std::string::npos) << blas;
    EXPECT_NE(space.run({"--build-info"}).out.find(blas), std::string::npos);
  }
}

}  // namespace attune::backend_cases_test
