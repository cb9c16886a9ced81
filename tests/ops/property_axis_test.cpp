// Operations along axes over random shapes: sums, softmax, norms, the loss; against loops.
#include "attune/ops/loss.h"
#include "attune/ops/norm.h"
#include "attune/ops/reduce.h"
#include "attune/ops/softmax.h"
#include "ops/property_test.h"

namespace attune::property_axis_test {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// All elements of x along an axis through the given place.
std::vector<double> line(const Array& x, const Coordinates& at, std::size_t axis) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < x.shape().extents()[axis]; ++i) {
    values.push_back(read(x, with(at, axis, i)));
  }
  return values;
}

double total(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

double exponential_total(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::exp(value);
  return sum;
}

TEST(PropertyReduce, OverOneAxis) {
  struct Operation {
    const char* name;
    Var (*apply)(const Var&, int, bool);
    double (*of_line)(const std::vector<double>&);
    std::int64_t least_extent;
  };
  const Operation operations[] = {
      {"sum of an axis", sum, total, 0},
      {"mean of an axis", mean,
       [](const std::vector<double>& v) { return total(v) / static_cast<double>(v.size()); }, 1},
      {"max of an axis", max,
       [](const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); }, 1},
      {"logsumexp of an axis", logsumexp,
       [](const std::vector<double>& v) { return std::log(exponential_total(v)); }, 1},
  };
  for (const Operation& operation : operations) {
    for_draws(operation.name, [&](Draw& draw) {
      const Array x = draw.distinct(draw.shape(1, operation.least_extent));
      const int axis = draw.axis_of(x.shape());
      const bool keep = draw.coin();
      const int named = draw.coin() ? axis : axis - x.shape().rank();
      const Shape kept = x.shape().with(axis, 1);
      std::vector<std::int64_t> extents(kept.begin(), kept.end());
      if (!keep) extents.erase(extents.begin() + axis);
      expect_properties(
          [&](std::span<const Var> in) { return operation.apply(in[0], named, keep); }, {x},
          Shape(std::span<const std::int64_t>(extents)), tabulate(kept, [&](const Coordinates& at) {
            return operation.of_line(line(x, at, index(axis)));
          }));
    });
  }
}

TEST(PropertyReduce, OverAllElements) {
  for_draws("sum and mean", [](Draw& draw) {
    const Array x = draw.array(draw.shape());
    const double all = total(x.to_vector());
    const double count = static_cast<double>(std::max<std::int64_t>(x.size(), 1));
    expect_properties([](std::span<const Var> in) { return sum(in[0]); }, {x}, {}, {all});
    expect_properties([](std::span<const Var> in) { return mean(in[0]); }, {x}, {}, {all / count});
  });
}

TEST(PropertyReduce, RunningSum) {
  for_draws("cumsum", [](Draw& draw) {
    const Array x = draw.array(draw.shape(1));
    const int axis = draw.axis_of(x.shape());
    const bool reverse = draw.coin();
    expect_properties(
        [&](std::span<const Var> in) { return cumsum(in[0], axis, reverse); }, {x}, x.shape(),
        tabulate(x.shape(), [&](const Coordinates& at) {
          const std::vector<double> values = line(x, at, index(axis));
          const auto here = values.begin() + at[index(axis)];
          return reverse ? total({here, values.end()}) : total({values.begin(), here + 1});
        }));
  });
}

TEST(PropertySoftmax, OverTheLastAxis) {
  for_draws("softmax", [](Draw& draw) {
    const Array x = draw.array(draw.shape(1), -3, 3);
    const std::size_t last = index(x.shape().rank()) - 1;
    const auto share = [&](const Coordinates& at) {
      return std::exp(read(x, at)) / exponential_total(line(x, at, last));
    };
    expect_properties([](std::span<const Var> in) { return softmax(in[0]); }, {x}, x.shape(),
                      tabulate(x.shape(), share));
    expect_properties(
        [](std::span<const Var> in) { return log_softmax(in[0]); }, {x}, x.shape(),
        tabulate(x.shape(), [&](const Coordinates& at) { return std::log(share(at)); }));
  });
}

TEST(PropertySoftmax, OverWhatAMaskKeeps) {
  for_draws("masked_softmax", [](Draw& draw) {
    const Array x = draw.array(draw.shape(1), -3, 3);
    const Array keep = draw.flags(draw.part_of(x.shape()));
    const std::size_t last = index(x.shape().rank()) - 1;
    const auto kept = [&](const Coordinates& at) {
      return read(keep, at) != 0 ? std::exp(read(x, at)) : 0.0;
    };
    expect_properties([&](std::span<const Var> in) { return masked_softmax(in[0], keep); }, {x},
                      x.shape(), tabulate(x.shape(), [&](const Coordinates& at) {
                        double sum = 0;
                        for (std::int64_t i = 0; i < x.shape().last(); ++i)
                          sum += kept(with(at, last, i));
                        return sum == 0 ? 0 : kept(at) / sum;
                      }));
  });
}

// An eps that bounds curvature, so that finite differences are good in narrow rows, too.
constexpr double kEps = 0.1;

TEST(PropertyNorm, OfRows) {
  for_draws("norms", [](Draw& draw) {
    const Shape shape = Shape({draw.extent(), draw.extent(), draw.extent(1)});
    const Array x = draw.array(shape, -2, 2), branch = draw.array(shape, -2, 2);
    const Array gain = draw.array({shape.last()}, 0.5, 2), shift = draw.array({shape.last()});
    const auto n = static_cast<double>(shape.last());
    const auto layer = [&](const Array& of) {
      return tabulate(shape, [&](const Coordinates& at) {
        const std::vector<double> row = line(of, at, 2);
        const double mean = total(row) / n;
        double variance = 0;
        for (const double value : row) variance += (value - mean) * (value - mean) / n;
        const double standard = (read(of, at) - mean) / std::sqrt(variance + kEps);
        return standard * read(gain, {at[2]}) + read(shift, {at[2]});
      });
    };
    const auto root_mean_square = [&](const Array& of) {
      return tabulate(shape, [&](const Coordinates& at) {
        double square = 0;
        for (const double value : line(of, at, 2)) square += value * value / n;
        return read(of, at) / std::sqrt(square + kEps) * read(gain, {at[2]});
      });
    };
    const Array sum = Array::from(
        shape,
        tabulate(shape, [&](const Coordinates& at) { return read(x, at) + read(branch, at); }),
        DType::float64);
    using In = std::span<const Var>;
    expect_properties([](In in) { return layer_norm(in[0], in[1], in[2], kEps); }, {x, gain, shift},
                      shape, layer(x));
    expect_properties([](In in) { return rms_norm(in[0], in[1], kEps); }, {x, gain}, shape,
                      root_mean_square(x));
    expect_properties(
        [](In in) { return add_layer_norm(in[0], in[1], in[2], in[3], kEps).normalised; },
        {x, branch, gain, shift}, shape, layer(sum));
    expect_properties([](In in) { return add_rms_norm(in[0], in[1], in[2], kEps).normalised; },
                      {x, branch, gain}, shape, root_mean_square(sum));
    expect_properties(
        [&](In in) { return add_rms_norm(in[0], in[1], gain.cast(in[0].dtype())).sum; },
        {x, branch}, sum);
  });
}

TEST(PropertyNorm, WithoutGainAndShiftIsWithOnesAndZeros) {
  for_draws("bare norms", [](Draw& draw) {
    const Array x = draw.array(draw.shape(1, 1), -2, 2);
    const Var ones(Array::full({x.shape().last()}, 1, DType::float64));
    const Var zeros(Array::zeros({x.shape().last()}, DType::float64));
    expect_properties([](std::span<const Var> in) { return layer_norm(in[0], {}, {}, kEps); }, {x},
                      layer_norm(x, ones, zeros, kEps).value());
    expect_properties([](std::span<const Var> in) { return rms_norm(in[0], {}, kEps); }, {x},
                      rms_norm(x, ones, kEps).value());
  });
}

TEST(PropertyLoss, CrossEntropyWithIgnoredTargetsAndSmoothing) {
  for_draws("cross_entropy", [](Draw& draw) {
    const Array logits = draw.array(Shape({draw.extent(), draw.extent(), draw.extent(1)}), -3, 3);
    const std::int64_t classes = logits.shape().last();
    const double smoothing = draw.coin() ? 0 : 0.25;
    std::vector<std::int32_t> targets;
    double expected = 0;
    for (std::int64_t row = 0; row < logits.shape().rows(); ++row) {
      const auto target = static_cast<std::int32_t>(draw.between(-1, classes - 1));
      targets.push_back(target < 0 ? kIgnore : target);
      if (target < 0) continue;
      const Coordinates at{row / logits.shape()[1], row % logits.shape()[1], 0};
      const std::vector<double> z = line(logits, at, 2);
      for (std::int64_t c = 0; c < classes; ++c) {
        const double share =
            smoothing / static_cast<double>(classes) + (c == target ? 1 - smoothing : 0);
        expected -= share * (z[index(c)] - std::log(exponential_total(z)));
      }
    }
    expect_properties(
        [&](std::span<const Var> in) { return cross_entropy(in[0], targets, smoothing).loss_sum; },
        {logits}, {}, {expected});
  });
}

}  // namespace attune::property_axis_test
