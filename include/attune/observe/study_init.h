#pragma once

#include <vector>

#include "attune/model/transformer.h"
#include "attune/task/task.h"

namespace attune {

// A model before training, seen while it reads one batch. RMS: root mean square over all elements.
// What a model does not have, such as the feed-forward part of an attention-only one, is NaN.
struct LayerAtInit {
  double stream_rms = 0;     // of the residual stream behind the block
  double attention_rms = 0;  // of what attention adds to it
  double ffn_rms = 0;        // of what the feed-forward part adds
  double gradient_rms = 0;   // of the summed loss by the residual stream behind the block
  // Standard deviation of the scores that a query keeps, estimated without bias from the variance
  // within each row; over all heads. The logs' score_std divides by n, not n - 1.
  double score_std = 0;
  double entropy_norm = 0;  // over all heads, as in the logs: sum of H / sum of ln n
  // What entropy_norm would be if the scores of each row were independent and normal, for its own
  // number of kept keys (gaussian_entropy.h) and its own deviation, which is taken over all its
  // keys, kept or not. NaN where heads or examples keep different keys, and where weights are no
  // plain softmax of scores.
  double predicted_norm = 0;
  // Its limit for small scores and rows of n keys each: 1 - score_std^2 / (2 ln n), n the longest.
  double small_scores_norm = 0;
};
struct ModelAtInit {
  double loss_nats = 0;
  double uniform_nats = 0;  // ln V: the loss of a model that knows nothing and says so
  double embedding_rms = 0;
  double embedding_gradient_rms = 0;  // of the summed loss
  std::vector<LayerAtInit> layers;
};
[[nodiscard]] ModelAtInit study_init(const Transformer& model, const Batch& batch);

}  // namespace attune
