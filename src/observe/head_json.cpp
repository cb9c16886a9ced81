#include "observe/head_json.h"

#include <nlohmann/json.hpp>

namespace attune {

void add_head(nlohmann::ordered_json& line, const HeadStatistics& head) {
  line[head.shares ? "share_entropy_nats" : "entropy_nats"] = head.entropy_nats();
  line[head.shares ? "share_entropy_norm" : "entropy_norm"] = head.entropy_norm();
  line[head.shares ? "max_share" : "max_prob"] = head.max_probability();
  if (head.shares) line["row_sum"] = head.row_sum();
  if (head.sink_mass_sum > 0) line["sink_mass"] = head.sink_mass();
  line["score_std"] = head.score_std();
  line["score_max_abs"] = head.score_max_abs;
  line["rows_valid"] = head.rows_valid;
  line["rows_single"] = head.rows_single;
  line["rows_empty"] = head.rows_empty;
}

}  // namespace attune
