// Matrix products over random shapes, against loops.
#include "attune/ops/matmul.h"
#include "attune/ops/unary.h"
#include "ops/property_test.h"

namespace attune::property_matmul_test {

using Values = std::span<const Var>;

Shape appended(const Shape& shape, std::initializer_list<std::int64_t> more) {
  std::vector<std::int64_t> extents(shape.begin(), shape.end());
  extents.insert(extents.end(), more);
  return Shape(std::span<const std::int64_t>(extents));
}

// The last two coordinates replaced.
Coordinates with_last_two(Coordinates at, std::int64_t row, std::int64_t column) {
  at[at.size() - 2] = row;
  at[at.size() - 1] = column;
  return at;
}

TEST(PropertyMatmul, OverLeadingAxesThatBroadcast) {
  for_draws("matmul", [](Draw& draw) {
    const std::int64_t m = draw.extent(), k = draw.extent(), n = draw.extent();
    const auto transpose_a = static_cast<Transpose>(draw.coin());
    const auto transpose_b = static_cast<Transpose>(draw.coin());
    const bool a_turned = transpose_a == Transpose::yes, b_turned = transpose_b == Transpose::yes;
    const Shape leading = Shape({draw.extent(), draw.extent()});
    const Shape leading_a = draw.part_of(leading), leading_b = draw.part_of(leading);
    const Array a =
        draw.array(a_turned ? appended(leading_a, {k, m}) : appended(leading_a, {m, k}));
    const Array b =
        draw.array(b_turned ? appended(leading_b, {n, k}) : appended(leading_b, {k, n}));
    const Shape shape = appended(broadcast("test", leading_a, leading_b), {m, n});
    // read() broadcasts an extent of 1, which no coordinate but 0 meets in the last two axes.
    expect_properties(
        [&](Values x) { return matmul(x[0], x[1], transpose_a, transpose_b); }, {a, b}, shape,
        tabulate(shape, [&](const Coordinates& at) {
          const std::int64_t row = at[at.size() - 2], column = at[at.size() - 1];
          double sum = 0;
          for (std::int64_t i = 0; i < k; ++i) {
            sum += read(a, a_turned ? with_last_two(at, i, row) : with_last_two(at, row, i)) *
                   read(b, b_turned ? with_last_two(at, column, i) : with_last_two(at, i, column));
          }
          return sum;
        }));
  });
}

TEST(PropertyMatmul, OfOneOperandTwice) {
  for_draws("x transposed times x", [](Draw& draw) {
    const Array x = draw.array(draw.shape(2));
    const std::int64_t rows = x.shape()[-2], columns = x.shape()[-1];
    const bool turned = draw.coin();  // otherwise x times x transposed
    const std::int64_t n = turned ? columns : rows;
    const Shape shape = x.shape().with(-2, n).with(-1, n);
    expect_properties(
        [&](Values in) {
          return turned ? matmul(in[0], in[0], Transpose::yes, Transpose::no)
                        : matmul(in[0], in[0], Transpose::no, Transpose::yes);
        },
        {x}, shape, tabulate(shape, [&](const Coordinates& at) {
          const std::int64_t a = at[at.size() - 2], b = at[at.size() - 1];
          double sum = 0;
          for (std::int64_t i = 0; i < (turned ? rows : columns); ++i) {
            sum += turned ? read(x, with_last_two(at, i, a)) * read(x, with_last_two(at, i, b))
                          : read(x, with_last_two(at, a, i)) * read(x, with_last_two(at, b, i));
          }
          return sum;
        }));
  });
}

TEST(PropertyMatmul, LinearWithAndWithoutBiasAndActivation) {
  for_draws("linear", [](Draw& draw) {
    const std::int64_t in = draw.extent(), out = draw.extent();
    const Shape rows = Shape({draw.extent(), draw.extent()});
    const Array x = draw.array(appended(draw.coin() ? rows : Shape{rows[0]}, {in}));
    const Array weight = draw.array({out, in});
    const bool biased = draw.coin();
    std::vector<Array> inputs{x, weight};
    if (biased) inputs.push_back(draw.array({out}));
    const Shape shape = x.shape().with(-1, out);
    const std::vector<double> y = tabulate(shape, [&](const Coordinates& at) {
      double sum = biased ? read(inputs[2], {at.back()}) : 0;
      for (std::int64_t i = 0; i < in; ++i) {
        sum += read(x, with(at, at.size() - 1, i)) * read(weight, {at.back(), i});
      }
      return sum;
    });
    const auto bias = [&](Values v) { return biased ? v[2] : Var(); };
    expect_properties([&](Values v) { return linear(v[0], v[1], bias(v)); }, inputs, shape, y);

    // What the activations are, tests/ops/property_elementwise_test.cpp says.
    struct Activation {
      ActivationFunction function;
      Var (*apply)(const Var&);
    };
    const Activation activations[] = {{ActivationFunction::relu, relu},
                                      {ActivationFunction::gelu, gelu},
                                      {ActivationFunction::gelu_tanh, gelu_tanh},
                                      {ActivationFunction::silu, silu}};
    const Activation& activation = activations[draw.between(0, 3)];
    expect_properties(
        [&](Values v) { return linear_activation(v[0], v[1], bias(v), activation.function); },
        inputs, activation.apply(Array::from(shape, y, DType::float64)).value());
  });
}

}  // namespace attune::property_matmul_test
