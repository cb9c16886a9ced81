#include "attune/ops/attention.h"

#include <optional>
#include <utility>
#include <vector>

#include "attune/autodiff/tape.h"
#include "kernels/attention.h"
#include "ops/attention_check.h"

namespace attune {
namespace {

using kernels::AttentionExtents;

// Heads lie side by side in the rows of [batch, time, heads * width].
template <class T>
kernels::HeadRows<T> rows_of(T* data, const Shape& shape) {
  return {data, shape[1] * shape[2], shape[2]};
}
template <class T>
kernels::HeadRows<const T> rows_of(const Array& x) {
  return rows_of(x.data<T>().data(), x.shape());
}

// What forward and backward pass read.
struct Problem {
  AttentionExtents extents;
  double scale;
  double softcap;
  AttentionDropout dropout;
  Array query, key, value;
  Shape bias_shape;  // [] without a bias
  Array distances;   // [heads, distances], or null
  std::int64_t first_distance;
  std::vector<std::int32_t> query_positions, key_positions;  // for `distances`

  // `bias` may be null.
  template <class T>
  [[nodiscard]] kernels::AttentionOperands<T> operands(const Mask* mask, const Array& bias) const {
    return {.extents = extents,
            .query = rows_of<T>(query),
            .key = rows_of<T>(key),
            .value = rows_of<T>(value),
            .bias = bias.is_null() ? nullptr : bias.data<T>().data(),
            .bias_per_example = bias_shape.rank() > 0 && bias_shape[0] == extents.batch,
            .distance = distance_table<T>(distances, first_distance, query_positions, key_positions,
                                          extents),
            .scale = scale,
            .softcap = softcap,
            .mask = mask,
            .dropout_rate = dropout.rate,
            .dropout_stream = dropout.stream,
            .first_example = dropout.first_example};
  }
  [[nodiscard]] Array new_output() const {
    return Array::uninitialized({extents.batch, extents.query, extents.heads * extents.value_dim},
                                query.dtype());
  }
};

template <class T>
kernels::GradientRows<T> gradient_rows(InputGradients& dx, int input) {
  if (!dx.needs(input)) return {};
  const InputGradients::Place place = dx.accumulate(input);
  return {rows_of(place.gradient.mutable_data<T>().data(), place.gradient.shape()),
          place.holds_sum};
}

// Calls `backward` with the places of dloss/dquery, key, value, bias and distance table.
template <class Backward>
void write_gradients(const Problem& problem, InputGradients& dx, Backward backward) {
  const DType dtype = problem.query.dtype();
  Array bias, distance;
  if (dx.needs(3)) bias = Array::zeros(problem.bias_shape, dtype);
  if (dx.needs(4)) distance = Array::zeros(problem.distances.shape(), dtype);
  dispatch(dtype, [&]<class T>() {
    kernels::AttentionGradients<T> gradients{gradient_rows<T>(dx, 0), gradient_rows<T>(dx, 1),
                                             gradient_rows<T>(dx, 2)};
    if (!bias.is_null()) gradients.bias = bias.mutable_data<T>().data();
    if (!distance.is_null()) gradients.distance = distance.mutable_data<T>().data();
    backward(gradients);
  });
  if (!bias.is_null()) dx.add(3, std::move(bias));
  if (!distance.is_null()) dx.add(4, std::move(distance));
}

// The arrays behind kernels::AttentionMemory; null where it has null.
struct Memory {
  Array probabilities;
  Array capped;
  Array kept;

  template <class T>
  [[nodiscard]] kernels::AttentionMemory<T> pointers() {
    const auto data = [](Array& x) { return x.is_null() ? nullptr : x.mutable_data<T>().data(); };
    return {data(probabilities), data(capped), data(kept)};
  }
};

Memory allocate_memory(const AttentionExtents& extents, DType dtype, bool capped, bool kept) {
  const std::int64_t columns =
      dispatch(dtype, [&]<class T>() { return kernels::padded_keys<T>(extents.key); });
  const Shape scores{extents.batch, extents.heads, extents.query, columns};
  Memory memory;
  memory.probabilities = Array::uninitialized(scores, dtype);
  if (capped) memory.capped = Array::uninitialized(scores, dtype);
  if (kept)
    memory.kept = Array::uninitialized({extents.batch, extents.kv_heads, extents.key}, dtype);
  return memory;
}

Var attention_stored(const Problem& problem, Inputs inputs, const Array& bias, bool recorded,
                     const AttentionOptions& options) {
  Memory memory;
  if (recorded) {
    const bool has_flags = options.mask != nullptr && !options.mask->is_band();
    memory =
        allocate_memory(problem.extents, problem.query.dtype(), problem.softcap > 0, has_flags);
  }
  Array y = problem.new_output();
  dispatch(y.dtype(), [&]<class T>() {
    kernels::attention<T>(problem.operands<T>(options.mask, bias), memory.pointers<T>(),
                          rows_of(y.mutable_data<T>().data(), y.shape()), options.statistics);
  });
  return record(
      "attention", inputs, y,
      [problem = problem, memory = std::move(memory),
       band = options.mask ? options.mask->band_part() : Mask()](const Array& dy,
                                                                 InputGradients& dx) mutable {
        write_gradients(problem, dx, [&]<class T>(kernels::AttentionGradients<T>& gradients) {
          kernels::attention_backward<T>(problem.operands<T>(&band, {}), memory.pointers<T>(),
                                         rows_of<T>(dy), gradients);
        });
      });
}

Var attention_tiled(const Problem& problem, Inputs inputs, const Array& bias, bool recorded,
                    const AttentionOptions& options) {
  const AttentionExtents& extents = problem.extents;
  const DType dtype = problem.query.dtype();
  Array partition;
  if (recorded)
    partition = Array::uninitialized({extents.batch, extents.heads, extents.query, 2}, dtype);
  Array y = problem.new_output();
  dispatch(dtype, [&]<class T>() {
    kernels::attention_tiled<T>(
        problem.operands<T>(options.mask, bias), rows_of(y.mutable_data<T>().data(), y.shape()),
        recorded ? partition.mutable_data<T>().data() : nullptr, options.statistics);
  });
  return record(
      "attention", inputs, y,
      [problem = problem, bias, y, partition, mask = options.mask ? *options.mask : Mask()](
          const Array& dy, InputGradients& dx) {
        write_gradients(problem, dx, [&]<class T>(kernels::AttentionGradients<T>& gradients) {
          kernels::attention_tiled_backward<T>(problem.operands<T>(&mask, bias), rows_of<T>(y),
                                               partition.data<T>().data(), rows_of<T>(dy),
                                               gradients);
        });
      });
}

Var attention_sparse(const Problem& problem, Inputs inputs, const Array& bias, bool recorded,
                     const AttentionOptions& options, kernels::KeptPairs pairs) {
  Array weights;
  if (recorded)
    weights = Array::uninitialized({pairs.count(problem.extents)}, problem.query.dtype());
  Array y = problem.new_output();
  dispatch(y.dtype(), [&]<class T>() {
    kernels::attention_sparse<T>(
        problem.operands<T>(nullptr, bias), pairs, rows_of(y.mutable_data<T>().data(), y.shape()),
        recorded ? weights.mutable_data<T>().data() : nullptr, options.statistics);
  });
  return record("attention", inputs, y,
                [problem = problem, bias, weights, pairs = std::move(pairs)](const Array& dy,
                                                                             InputGradients& dx) {
                  write_gradients(
                      problem, dx, [&]<class T>(kernels::AttentionGradients<T>& gradients) {
                        kernels::attention_sparse_backward<T>(problem.operands<T>(nullptr, bias),
                                                              pairs, weights.data<T>().data(),
                                                              rows_of<T>(dy), gradients);
                      });
                });
}

// A pair by itself costs about as much as sixteen in a tile; below so many keys there is nothing to
// gain.
constexpr std::int64_t kLeastSparseKeys = 128;
constexpr std::int64_t kPairsInATile = 16;

// The pairs of a mask that keeps few, or nothing where the other forms are as good.
std::optional<kernels::KeptPairs> few_pairs(const AttentionExtents& extents,
                                            const AttentionOptions& options) {
  const Mask mask = options.mask == nullptr ? Mask() : *options.mask;
  if (options.form == AttentionForm::sparse) return kernels::kept_pairs(mask, extents);
  if (options.form != AttentionForm::automatic || mask.is_band() || extents.key < kLeastSparseKeys)
    return std::nullopt;
  kernels::KeptPairs pairs = kernels::kept_pairs(mask, extents);
  const std::int64_t all = extents.batch * extents.heads * extents.query * extents.key;
  if (pairs.count(extents) > all / kPairsInATile) return std::nullopt;
  return pairs;
}

// Beyond this many keys a row's weights cost more to keep than to compute again.
constexpr std::int64_t kMostStoredKeys = 1024;

}  // namespace

bool is_composed(const AttentionOptions& options) {
  return options.normaliser != Normaliser::softmax || !options.sink.is_null() ||
         !options.temperature.is_null() || !options.mix_scores.is_null() ||
         !options.mix_weights.is_null();
}

Var attention(const Var& query, const Var& key, const Var& value, const Var& bias,
              const AttentionOptions& options) {
  if (is_composed(options)) return attention_textbook(query, key, value, bias, options);
  const AttentionExtents extents = check_attention("attention", query, key, value, bias, options);
  const DistanceBias& distance = options.distance_bias;
  const Problem problem{
      .extents = extents,
      .scale = attention_scale(extents, options),
      .softcap = options.softcap,
      .dropout = options.dropout,
      .query = query.value(),
      .key = key.value(),
      .value = value.value(),
      .bias_shape = bias.is_null() ? Shape{} : bias.shape(),
      .distances = distance.table.value(),
      .first_distance = distance.first,
      .query_positions = {distance.query_positions.begin(), distance.query_positions.end()},
      .key_positions = {distance.key_positions.begin(), distance.key_positions.end()}};
  const bool recorded =
      query.tape() || key.tape() || value.tape() || bias.tape() || distance.table.tape();
  const Inputs inputs = {query, key, value, bias, distance.table};
  if (auto pairs = few_pairs(extents, options)) {
    return attention_sparse(problem, inputs, bias.value(), recorded, options, std::move(*pairs));
  }
  const bool tiled = options.form == AttentionForm::automatic
                         ? extents.key > kMostStoredKeys
                         : options.form == AttentionForm::tiled;
  return (tiled ? attention_tiled : attention_stored)(problem, inputs, bias.value(), recorded,
                                                      options);
}

}  // namespace attune
