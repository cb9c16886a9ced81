#include "attune/train/run_profile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace attune {
namespace {

constexpr const char* kPhaseNames[] = {"drawing batches", "reducing gradients", "optimizer",
                                       "evaluation", "checkpoint"};

const std::string& op_of(const OpPlace& place) { return place.second; }
const std::string& module_of(const OpPlace& place) {
  static const std::string kModel = "model";
  return place.first.empty() ? kModel : place.first;
}

}  // namespace

RunProfile::RunProfile(ProfileClock clock) : clock_(std::move(clock)), begin_(clock_()) {}

void RunProfile::begin(int threads, std::int64_t shards) {
  threads_ = threads;
  elapsed_seconds_ = 0;
  steps_ = 0;
  in_shards_ = 0;
  phases_.fill(0);
  shards_.clear();
  for (std::int64_t s = 0; s < shards; ++s) {
    shards_.push_back(std::make_unique<Shard>(Shard{OpProfile(clock_, measures_values_)}));
  }
  begin_ = clock_();
}

void RunProfile::end() {
  elapsed_seconds_ = std::chrono::duration<double>(clock_() - begin_).count();
}

std::vector<RunProfile::Row> RunProfile::by_op() const { return rows(op_of); }
std::vector<RunProfile::Row> RunProfile::by_module() const { return rows(module_of); }

std::vector<RunProfile::Row> RunProfile::rows(const std::string& (*name_of)(const OpPlace&)) const {
  std::map<std::string, OpCost> costs;
  for (const auto& shard : shards_) {
    for (const auto& [place, cost] : shard->ops.costs()) costs[name_of(place)] += cost;
  }
  std::vector<Row> rows;
  for (const auto& [name, cost] : costs) {
    const auto elements = static_cast<double>(std::max<std::int64_t>(cost.output_elements, 1));
    const auto steps = static_cast<double>(std::max<std::int64_t>(steps_, 1));
    rows.push_back({name, false, cost, cost.seconds(), std::sqrt(cost.output_squares / elements),
                    std::sqrt(cost.gradient_squares / steps)});
  }
  add_phases(rows);
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  return rows;
}

void RunProfile::add_phases(std::vector<Row>& rows) const {
  double other = threads_ * elapsed_seconds_;
  for (const Row& row : rows) other -= row.seconds;
  const auto add = [&](const char* name, double seconds) {
    rows.push_back({.name = name, .is_phase = true, .cost = {}, .seconds = seconds});
    other -= seconds;
  };
  double busy = 0;
  double drawing = 0;
  for (const auto& shard : shards_) {
    busy += shard->busy_seconds;
    drawing += shard->drawing_seconds;
  }
  for (std::size_t p = 0; p < kPhases; ++p) {
    const double alongside = p == static_cast<std::size_t>(Phase::drawing) ? drawing : 0;
    add(kPhaseNames[p], threads_ * phases_[p] + alongside);
  }
  if (threads_ > 1) add("waiting", threads_ * in_shards_ - busy);
  rows.push_back({.name = "other", .is_phase = true, .cost = {}, .seconds = other});
}

RunProfile::Timer::Timer(const RunProfile* profile, double* sum) : profile_(profile), sum_(sum) {
  if (profile_ != nullptr) begin_ = profile_->clock_();
}

RunProfile::Timer::Timer(RunProfile* profile, Phase phase)
    : Timer(profile,
            profile == nullptr ? nullptr : &profile->phases_[static_cast<std::size_t>(phase)]) {}

RunProfile::Timer::~Timer() {
  if (profile_ == nullptr) return;
  *sum_ += std::chrono::duration<double>(profile_->clock_() - begin_).count();
}

}  // namespace attune
