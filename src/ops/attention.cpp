#include "attune/ops/attention.h"

#include <utility>

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

// What forward and backward pass read, apart from the mask and the bias values.
struct Problem {
  AttentionExtents extents;
  double scale;
  double softcap;
  double dropout_rate;
  RandomStream dropout_stream;
  std::int64_t first_example;
  bool bias_per_example;

  template <class T>
  [[nodiscard]] kernels::AttentionOperands<T> operands(const Array& query, const Array& key,
                                                       const Array& value, const Mask* mask) const {
    return {.extents = extents,
            .query = rows_of<T>(query),
            .key = rows_of<T>(key),
            .value = rows_of<T>(value),
            .bias_per_example = bias_per_example,
            .scale = scale,
            .softcap = softcap,
            .mask = mask,
            .dropout_rate = dropout_rate,
            .dropout_stream = dropout_stream,
            .first_example = first_example};
  }
};

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

// The part of a mask that the backward pass reads, without its flags.
Mask band_of(const Mask* mask) {
  Mask band;
  if (mask != nullptr && mask->is_causal()) band &= Mask::causal();
  if (mask != nullptr && mask->window_width() > 0) band &= Mask::window(mask->window_width());
  return band;
}

template <class T>
kernels::GradientRows<T> gradient_rows(InputGradients& dx, int input) {
  if (!dx.needs(input)) return {};
  const InputGradients::Place place = dx.accumulate(input);
  return {rows_of(place.gradient.mutable_data<T>().data(), place.gradient.shape()),
          place.holds_sum};
}

}  // namespace

Var attention(const Var& query, const Var& key, const Var& value, const Var& bias,
              const AttentionOptions& options) {
  const AttentionExtents extents = check_attention("attention", query, key, value, bias, options);
  const Array &q = query.value(), &k = key.value(), &v = value.value();
  const DType dtype = q.dtype();
  const Problem problem{.extents = extents,
                        .scale = attention_scale(extents, options),
                        .softcap = options.softcap,
                        .dropout_rate = options.dropout.rate,
                        .dropout_stream = options.dropout.stream,
                        .first_example = options.dropout.first_example,
                        .bias_per_example = !bias.is_null() && bias.shape()[0] == extents.batch};
  const bool recorded = query.tape() || key.tape() || value.tape() || bias.tape();
  Memory memory;
  if (recorded) {
    const bool has_flags = options.mask != nullptr && !options.mask->is_band();
    memory = allocate_memory(extents, dtype, options.softcap > 0, has_flags);
  }

  const Shape output_shape{extents.batch, extents.query, extents.heads * extents.value_dim};
  Array output = Array::uninitialized(output_shape, dtype);
  dispatch(dtype, [&]<class T>() {
    auto operands = problem.operands<T>(q, k, v, options.mask);
    if (!bias.is_null()) operands.bias = bias.value().data<T>().data();
    kernels::attention<T>(operands, memory.pointers<T>(),
                          rows_of(output.mutable_data<T>().data(), output_shape),
                          options.statistics);
  });
  const Shape bias_shape = bias.is_null() ? Shape{} : bias.shape();
  return record("attention", {query, key, value, bias}, output,
                [problem, q, k, v, memory = std::move(memory), bias_shape,
                 band = band_of(options.mask)](const Array& dy, InputGradients& dx) mutable {
                  Array bias_gradient;
                  if (dx.needs(3)) bias_gradient = Array::zeros(bias_shape, dy.dtype());
                  dispatch(dy.dtype(), [&]<class T>() {
                    kernels::AttentionGradients<T> gradients{
                        gradient_rows<T>(dx, 0), gradient_rows<T>(dx, 1), gradient_rows<T>(dx, 2)};
                    if (!bias_gradient.is_null())
                      gradients.bias = bias_gradient.mutable_data<T>().data();
                    kernels::attention_backward<T>(problem.operands<T>(q, k, v, &band),
                                                   memory.pointers<T>(), rows_of<T>(dy), gradients);
                  });
                  if (!bias_gradient.is_null()) dx.add(3, std::move(bias_gradient));
                });
}

}  // namespace attune
