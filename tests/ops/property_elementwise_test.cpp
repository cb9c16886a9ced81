// Element-wise operations over random shapes, against the scalar function in a loop.
#include <numbers>

#include "attune/ops/arithmetic.h"
#include "attune/ops/dropout.h"
#include "attune/ops/select.h"
#include "attune/ops/unary.h"
#include "ops/property_test.h"

namespace attune::property_elementwise_test {

TEST(PropertyArithmetic, OfTwoOperandsThatBroadcast) {
  struct Operation {
    const char* name;
    Var (*apply)(const Var&, const Var&);
    double (*scalar)(double, double);
  };
  const Operation operations[] = {
      {"add", add, [](double x, double y) { return x + y; }},
      {"subtract", subtract, [](double x, double y) { return x - y; }},
      {"multiply", multiply, [](double x, double y) { return x * y; }},
      {"divide", divide, [](double x, double y) { return x / y; }},
      {"maximum", maximum, [](double x, double y) { return std::max(x, y); }},
      {"minimum", minimum, [](double x, double y) { return std::min(x, y); }},
  };
  for (const Operation& operation : operations) {
    for_draws(operation.name, [&](Draw& draw) {
      const Shape whole = draw.shape();
      const Array a = draw.distinct(draw.part_of(whole), 0.005);
      // Not near 0, and never equal to an element of a.
      const bool divides = operation.apply == static_cast<decltype(operation.apply)>(divide);
      const Shape shape_b = draw.part_of(whole);
      const Array b = draw.distinct(shape_b, divides ? 3.0 : 0.0);
      const Shape shape = broadcast("test", a.shape(), b.shape());
      expect_properties([&](std::span<const Var> x) { return operation.apply(x[0], x[1]); }, {a, b},
                        shape, tabulate(shape, [&](const Coordinates& at) {
                          return operation.scalar(read(a, at), read(b, at));
                        }));
    });
  }
}

TEST(PropertyArithmetic, OfOneOperandTwice) {
  for_draws("x * x / (x + 3)", [](Draw& draw) {
    const Array x = draw.array(draw.shape());
    expect_properties([](std::span<const Var> in) { return in[0] * in[0] / (in[0] + 3.0); }, {x},
                      x.shape(), tabulate(x.shape(), [&](const Coordinates& at) {
                        const double value = read(x, at);
                        return value * value / (value + 3);
                      }));
  });
}

// An operation of one operand between `low` and `high`.
struct Unary {
  const char* name;
  std::function<Var(const Var&)> apply;
  std::function<double(double)> scalar;
  double low = -2;
  double high = 2;
};

void expect_unary_properties(const Unary& operation) {
  for_draws(operation.name, [&](Draw& draw) {
    const Shape shape = draw.shape();
    // Kinks lie at 0, where distinct() puts nothing.
    const Array x = operation.low == -2 ? draw.distinct(shape)
                                        : draw.array(shape, operation.low, operation.high);
    expect_properties(
        [&](std::span<const Var> in) { return operation.apply(in[0]); }, {x}, shape,
        tabulate(shape, [&](const Coordinates& at) { return operation.scalar(read(x, at)); }));
  });
}

double normal_distribution(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double tanh_gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

TEST(PropertyUnary, EqualsTheScalarFunction) {
  using Function = Var (*)(const Var&);
  const Unary operations[] = {
      {"add a number", [](const Var& x) { return add(x, 1.25); },
       [](double x) { return x + 1.25; }},
      {"multiply by a number", [](const Var& x) { return multiply(x, -1.5); },
       [](double x) { return -1.5 * x; }},
      {"number - x", [](const Var& x) { return 2.0 - x; }, [](double x) { return 2 - x; }},
      {"x / number", [](const Var& x) { return x / 3.0; }, [](double x) { return x / 3; }},
      {"negate", static_cast<Function>(negate), [](double x) { return -x; }},
      {"power 3", [](const Var& x) { return power(x, 3); }, [](double x) { return x * x * x; }},
      {"power -1/2", [](const Var& x) { return power(x, -0.5); },
       [](double x) { return 1 / std::sqrt(x); }, 0.5, 3},
      {"exp", static_cast<Function>(exp), [](double x) { return std::exp(x); }},
      {"log", static_cast<Function>(log), [](double x) { return std::log(x); }, 0.5, 3},
      {"sqrt", static_cast<Function>(sqrt), [](double x) { return std::sqrt(x); }, 0.5, 3},
      {"square", static_cast<Function>(square), [](double x) { return x * x; }},
      {"abs", static_cast<Function>(abs), [](double x) { return std::abs(x); }},
      {"sin", static_cast<Function>(sin), [](double x) { return std::sin(x); }},
      {"cos", static_cast<Function>(cos), [](double x) { return std::cos(x); }},
      {"tanh", static_cast<Function>(tanh), [](double x) { return std::tanh(x); }},
      {"sigmoid", static_cast<Function>(sigmoid), logistic},
      {"softplus", static_cast<Function>(softplus),
       [](double x) { return std::log1p(std::exp(x)); }},
      {"relu", static_cast<Function>(relu), [](double x) { return std::max(x, 0.0); }},
      {"gelu", static_cast<Function>(gelu), [](double x) { return x * normal_distribution(x); }},
      {"gelu_tanh", static_cast<Function>(gelu_tanh), tanh_gelu},
      {"silu", static_cast<Function>(silu), [](double x) { return x * logistic(x); }},
  };
  for (const Unary& operation : operations) expect_unary_properties(operation);
}

TEST(PropertyUnary, SwigluOfTwo) {
  for_draws("swiglu", [](Draw& draw) {
    const Shape shape = draw.shape();
    const Array gate = draw.array(shape, -2, 2), up = draw.array(shape, -2, 2);
    expect_properties([](std::span<const Var> x) { return swiglu(x[0], x[1]); }, {gate, up}, shape,
                      tabulate(shape, [&](const Coordinates& at) {
                        return read(gate, at) * logistic(read(gate, at)) * read(up, at);
                      }));
  });
}

TEST(PropertySelect, WhereOfThreeThatBroadcast) {
  for_draws("where", [](Draw& draw) {
    const Shape whole = draw.shape();
    const Array a = draw.array(draw.part_of(whole)), b = draw.array(draw.part_of(whole));
    const Array condition = draw.flags(draw.part_of(whole));
    const Shape shape =
        broadcast("test", condition.shape(), broadcast("test", a.shape(), b.shape()));
    expect_properties(
        [&](std::span<const Var> x) { return where(condition.cast(x[0].dtype()), x[0], x[1]); },
        {a, b}, shape, tabulate(shape, [&](const Coordinates& at) {
          return read(condition, at) != 0 ? read(a, at) : read(b, at);
        }));
  });
}

// A table, and what is read of it: indices of `shape`, result shape + [...].
struct TableDraw {
  explicit TableDraw(Draw& draw)
      : table(draw.array(draw.shape(1, 1))), shape({draw.extent(), draw.extent()}) {
    for (std::int64_t i = 0; i < shape.size(); ++i) {
      indices.push_back(static_cast<std::int32_t>(draw.between(0, table.shape()[0] - 1)));
    }
    std::vector<std::int64_t> extents{shape[0], shape[1]};
    for (const std::int64_t extent : table.shape().extents().subspan(1)) extents.push_back(extent);
    result = Shape(std::span<const std::int64_t>(extents));
  }
  [[nodiscard]] double row_element(const Coordinates& at) const {
    Coordinates in_table(at.begin() + 1, at.end());
    in_table[0] = indices[static_cast<std::size_t>(at[0] * shape[1] + at[1])];
    return read(table, in_table);
  }

  Array table;
  Shape shape, result;
  std::vector<std::int32_t> indices;
};

TEST(PropertySelect, GatherRows) {
  for_draws("gather_rows", [](Draw& draw) {
    const TableDraw drawn(draw);
    expect_properties(
        [&](std::span<const Var> x) { return gather_rows(x[0], drawn.indices, drawn.shape); },
        {drawn.table}, drawn.result,
        tabulate(drawn.result, [&](const Coordinates& at) { return drawn.row_element(at); }));
  });
}

TEST(PropertySelect, EmbeddingAddsToScaledRows) {
  for_draws("embedding", [](Draw& draw) {
    const TableDraw drawn(draw);
    const double scale = draw.coin() ? 1 : 1.75;
    // The last axes of the result, some of them once.
    const auto skipped = static_cast<std::size_t>(draw.between(0, drawn.result.rank()));
    const auto last = drawn.result.extents().subspan(skipped);
    std::vector<std::int64_t> extents(last.begin(), last.end());
    std::fill_n(extents.begin(), draw.between(0, std::ssize(extents)), 1);
    const Array added = draw.array(Shape(std::span<const std::int64_t>(extents)));
    expect_properties(
        [&](std::span<const Var> x) {
          return embedding(x[0], drawn.indices, drawn.shape, scale, x[1]);
        },
        {drawn.table, added}, drawn.result, tabulate(drawn.result, [&](const Coordinates& at) {
          return scale * drawn.row_element(at) + read(added, at);
        }));
  });
}

// The bits are other tests' concern: here whatever fell is 0, what stayed is scaled, and rows drop
// alike wherever a shard begins.
TEST(PropertyDropout, KeepsScaledOrDrops) {
  for_draws("dropout", [](Draw& draw) {
    const Array x = draw.array(draw.shape(1, 1), 0.5, 1);
    const double rate = 0.25 * static_cast<double>(draw.between(1, 3));
    const RandomStream stream = Randomness{.seed = 5}.stream("property");
    const auto f = [&](std::span<const Var> in) { return dropout(in[0], rate, stream); };
    std::vector<double> expected = x.to_vector();
    const std::vector<double> y = value_of(f, {x}).to_vector();
    for (std::size_t i = 0; i < y.size(); ++i) expected[i] *= y[i] == 0 ? 0 : 1 / (1 - rate);
    expect_properties(f, {x}, x.shape(), expected);

    const std::int64_t width = x.shape().last(), skipped = draw.between(0, x.shape().rows());
    const std::vector<double> all = x.to_vector();
    const std::vector<double> rest(all.begin() + skipped * width, all.end());
    const Array tail = Array::from({x.shape().rows() - skipped, width}, rest, DType::float64);
    const std::vector<double> whole = dropout(x, rate, stream).value().to_vector();
    expect_near(dropout(tail, rate, stream, skipped).value(),
                std::vector<double>(whole.begin() + skipped * width, whole.end()), 0);
  });
}

}  // namespace attune::property_elementwise_test
