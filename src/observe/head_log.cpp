#include "attune/observe/head_log.h"

#include <nlohmann/json.hpp>

#include "observe/strict_json.h"

namespace attune {

void HeadLog::on_evaluation(std::int64_t step, const Transformer& model) {
  if (!probe_) probe_ = probe_tokens(model);
  const HeadTable table = detect_heads(model, probe_->batch_of());
  for (int layer = 0; layer < table.layers; ++layer) {
    for (int head = 0; head < table.heads; ++head) {
      const HeadScores& scores = table.at(layer, head);
      nlohmann::ordered_json line;
      line["step"] = step;
      line["layer"] = layer;
      line["head"] = head;
      line["previous_token"] = scores.previous_token;
      line["duplicate_token"] = scores.duplicate_token;
      line["induction"] = scores.induction;
      name_nonfinite(line);
      log_.write(strict_text(line));
    }
  }
}

}  // namespace attune
