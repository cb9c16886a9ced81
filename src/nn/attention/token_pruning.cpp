#include "attune/nn/attention/token_pruning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/ops/reduce.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"

namespace attune {
namespace {

bool is_seen(const Mask& mask, std::int64_t b, std::int64_t j, std::int64_t time) {
  for (std::int64_t i = 0; i < time; ++i)
    if (mask.keeps(b, 0, i, j, time, time)) return true;
  return false;
}

// The tokens of example b that receive most, ascending.
std::vector<std::int32_t> most_attended(std::vector<double> received, std::int64_t kept) {
  std::vector<std::int32_t> order(received.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return received[static_cast<std::size_t>(a)] > received[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(kept));
  std::sort(order.begin(), order.end());
  return order;
}

void check(const Var& x, const Array& received, double keep_ratio, const Positions& positions) {
  if (!(keep_ratio > 0 && keep_ratio <= 1)) {
    throw ValueError("token pruning: keep ratio " + format_float(keep_ratio) +
                     ", expected one in (0, 1]");
  }
  const Shape& shape = x.shape();
  if (shape.rank() != 3 || received.shape() != Shape{shape[0], shape[1]} ||
      positions.time != shape[1] || (positions.batch != 1 && positions.batch != shape[0])) {
    throw ShapeError("token pruning: x " + to_string(shape) + ", received attention " +
                     to_string(received.shape()) + " and positions " +
                     to_string(Shape{positions.batch, positions.time}) +
                     ", expected [batch, time, model] and twice [batch, time]");
  }
}

}  // namespace

Var ReceivedAttention::at(HookPoint point, int layer, const Var& x) {
  if (point == HookPoint::pattern && layer == layer_)
    received_ = mean(sum(x.detached(), 2), 1).value();
  return x;
}

PrunedTokens prune_tokens(const Var& x, const Array& received, double keep_ratio,
                          const Positions& positions, const Mask* mask) {
  check(x, received, keep_ratio, positions);
  const std::int64_t batch = x.shape()[0], time = x.shape()[1], model = x.shape()[2];
  const auto kept = static_cast<std::int64_t>(std::ceil(keep_ratio * static_cast<double>(time)));
  if (mask) mask->check(batch, 1, time, time);

  PrunedTokens result{{}, {batch, kept, {}}, {}, {}};
  std::vector<std::int32_t> rows;      // of x as [batch * time, model]
  std::vector<std::uint8_t> attended;  // [batch, 1, kept, kept]
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<double> scores;
    for (std::int64_t j = 0; j < time; ++j) {
      const bool counts = !mask || is_seen(*mask, b, j, time);
      scores.push_back(counts ? received.at({b, j}) : -std::numeric_limits<double>::infinity());
    }
    const std::vector<std::int32_t> chosen = most_attended(std::move(scores), kept);
    for (const std::int32_t i : chosen) {
      result.index.push_back(i);
      result.positions.values.push_back(positions.row(b)[i]);
      rows.push_back(static_cast<std::int32_t>(b * time + i));
      for (const std::int32_t j : chosen)
        attended.push_back(!mask || mask->keeps(b, 0, i, j, time, time));
    }
  }
  result.x = gather_rows(reshape(x, {batch * time, model}), rows, {batch, kept});
  if (mask) result.mask = Mask::custom(batch, 1, kept, kept, std::move(attended));
  return result;
}

}  // namespace attune
