// Operations that move elements, over random shapes, against the place each element comes from.
#include "attune/ops/shaping.h"
#include "ops/property_test.h"

namespace attune::property_shaping_test {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

TEST(PropertyShaping, ReshapeKeepsTheOrder) {
  for_draws("reshape", [](Draw& draw) {
    const Array x = draw.array(draw.shape());
    std::vector<std::int64_t> extents(x.shape().begin(), x.shape().end());
    if (draw.coin()) {
      extents = {x.size()};
    } else {
      std::reverse(extents.begin(), extents.end());
      extents.insert(extents.begin() + draw.between(0, x.shape().rank()), 1);
    }
    const Shape shape{std::span<const std::int64_t>(extents)};
    expect_properties([&](std::span<const Var> in) { return reshape(in[0], shape); }, {x}, shape,
                      x.to_vector());
  });
}

TEST(PropertyShaping, TransposeInAnyOrder) {
  for_draws("transpose", [](Draw& draw) {
    const Array x = draw.array(Shape({draw.extent(), draw.extent(), draw.extent(), draw.extent()}));
    std::vector<int> order{0, 1, 2, 3};
    for (std::size_t i = 3; i > 0; --i) {
      std::swap(order[i], order[index(draw.between(0, static_cast<std::int64_t>(i)))]);
    }
    const Shape shape{x.shape()[order[0]], x.shape()[order[1]], x.shape()[order[2]],
                      x.shape()[order[3]]};
    expect_properties(
        [&](std::span<const Var> in) {
          return transpose(in[0], {order[0], order[1], order[2], order[3]});
        },
        {x}, shape, tabulate(shape, [&](const Coordinates& at) {
          Coordinates from(4);
          for (std::size_t i = 0; i < 4; ++i) from[index(order[i])] = at[i];
          return read(x, from);
        }));
  });
}

TEST(PropertyShaping, TransposeOfTheLastTwo) {
  for_draws("transpose the last two", [](Draw& draw) {
    const Array x = draw.array(draw.shape(2));
    const Shape shape = x.shape().with(-1, x.shape()[-2]).with(-2, x.shape()[-1]);
    expect_properties([](std::span<const Var> in) { return transpose(in[0]); }, {x}, shape,
                      tabulate(shape, [&](Coordinates at) {
                        std::swap(at[at.size() - 1], at[at.size() - 2]);
                        return read(x, at);
                      }));
  });
}

TEST(PropertyShaping, HeadsApartAndTogether) {
  for_draws("split_heads", [](Draw& draw) {
    const std::int64_t batch = draw.extent(), time = draw.extent();
    const std::int64_t heads = draw.extent(1), width = draw.extent();
    const Array x = draw.array({batch, time, heads * width});
    const Shape apart{batch, heads, time, width};
    const auto split = [&](std::span<const Var> in) { return split_heads(in[0], heads); };
    expect_properties(split, {x}, apart, tabulate(apart, [&](const Coordinates& at) {
                        return read(x, {at[0], at[2], at[1] * width + at[3]});
                      }));
    expect_properties([](std::span<const Var> in) { return merge_heads(in[0]); },
                      {value_of(split, {x})}, x);
  });
}

TEST(PropertyShaping, SlicesAndConcatUndoesThem) {
  for_draws("slice", [](Draw& draw) {
    const Array x = draw.array(draw.shape(1));
    const int axis = draw.axis_of(x.shape());
    const std::int64_t begin = draw.between(0, x.shape()[axis]);
    const std::int64_t end = draw.between(begin, x.shape()[axis]);
    const auto part = [&](std::int64_t first, std::int64_t last) {
      return [=](std::span<const Var> in) { return slice(in[0], axis, first, last); };
    };
    const Shape shape = x.shape().with(axis, end - begin);
    expect_properties(part(begin, end), {x}, shape, tabulate(shape, [&](const Coordinates& at) {
                        return read(x, with(at, index(axis), at[index(axis)] + begin));
                      }));
    const std::vector<Array> parts{value_of(part(0, begin), {x}), value_of(part(begin, end), {x}),
                                   value_of(part(end, x.shape()[axis]), {x})};
    expect_properties([&](std::span<const Var> in) { return concat(in, axis); }, parts, x);
  });
}

TEST(PropertyShaping, BroadcastTo) {
  for_draws("broadcast_to", [](Draw& draw) {
    const Shape shape = draw.shape();
    const Array x = draw.array(draw.part_of(shape));
    expect_properties([&](std::span<const Var> in) { return broadcast_to(in[0], shape); }, {x},
                      shape, tabulate(shape, [&](const Coordinates& at) { return read(x, at); }));
  });
}

}  // namespace attune::property_shaping_test
