#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "attune/core/random.h"
#include "attune/model/transformer.h"

namespace attune {

struct SamplingOptions {
  double temperature =
      1;  // logits are divided by it; 0: always the largest logit, the lowest index of equals
  std::int64_t top_k = 0;  // draw from the k largest alone; 0 or at least the vocabulary: off
  double top_p = 1;        // draw from the smallest set whose probability reaches p, at least one
                           // (Holtzman et al. 2020); 1: off
  // Throws ConfigError naming the option for a negative or NaN temperature, a negative k, a p
  // outside [0, 1].
  void check() const;
};

// One token from a row of logits and a uniform number in [0, 1). A logit of -infinity is never
// drawn; throws ValueError for NaN and +infinity, and where no logit is finite.
[[nodiscard]] std::int32_t sample_token(std::span<const double> logits,
                                        const SamplingOptions& options, double uniform);

struct GenerationOptions {
  SamplingOptions sampling{};
  std::int64_t max_new_tokens = 200;
  Randomness random{};             // sample i uses the stream "sample" at step i
  std::int64_t prefill_chunk = 0;  // tokens of the prompt read in a pass; 0: all
  std::int32_t stop = -1;          // ends with this token, which is given out too; -1: never
};

// Continues a prompt token by token with a KV-cache and hands each new token out as it comes;
// returns how many. Past a context that the encoding cannot exceed (learned positions), the last
// half of the block is read again and generation goes on; `on_rewind` hears of it the first time.
// A model without the causal mask reads everything again for every token, and so does one whose
// text has grown beyond what its encoding lets a cache hold; one that looks back through a window
// alone keeps no more than that in its cache, however long the text.
// Throws ValueError for an empty prompt.
std::int64_t generate(const Transformer& model, std::span<const std::int32_t> prompt,
                      const GenerationOptions& options,
                      const std::function<void(std::int32_t)>& on_token,
                      const std::function<void()>& on_rewind = {});

}  // namespace attune
