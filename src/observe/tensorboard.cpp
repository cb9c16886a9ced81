#include "attune/observe/tensorboard.h"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include <events.pb.h>
#include <fmt/format.h>

#include "attune/core/file.h"
#include "attune/core/text.h"
#include "attune/observe/entropy_range.h"
#include "attune/observe/inside_logs.h"
#include "observe/tfrecord.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";

double seconds_since_1970() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count();
}

std::string host() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  std::string text = name.data();
  std::ranges::replace(text, '/', '-');
  return text;
}

// The largest SECONDS of the event files that are there. They are read in the order of their names.
std::optional<std::int64_t> newest_file(const fs::path& directory) {
  std::optional<std::int64_t> newest;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const std::size_t end = std::min(name.find('.', kPrefix.size()), name.size());
    const auto seconds = parse_integer(name.substr(kPrefix.size(), end - kPrefix.size()));
    newest = std::max(newest.value_or(0), seconds.value_or(0));
  }
  return newest;
}

void add_scalar(events::Summary& summary, const std::string& tag, double value) {
  events::Summary::Value& entry = *summary.add_value();
  entry.set_tag(tag);
  entry.set_simple_value(static_cast<float>(value));
}

void add_evaluation(events::Summary& summary, const StepRecord& record, bool has_answers) {
  if (record.train_evaluation) {
    add_scalar(summary, "loss/train_eval", record.train_evaluation->loss_nats());
  }
  if (!record.validation) return;
  add_scalar(summary, "loss/val", record.validation->loss_nats());
  add_scalar(summary, "accuracy/val", record.validation->accuracy());
  if (has_answers) add_scalar(summary, "accuracy/val_exact", record.validation->exact_share());
}

void add_update(events::Summary& summary, const UpdateRecord& update) {
  add_scalar(summary, "loss/train", update.train_loss);
  add_scalar(summary, "accuracy/train", update.train_accuracy);
  add_scalar(summary, "optimizer/lr", update.lr);
  add_scalar(summary, "optimizer/grad_norm", update.grad_norm);
  add_scalar(summary, "speed/tokens_per_second", update.tokens_per_second);
  for (const ParameterRecord& parameter : update.parameters) {
    add_scalar(summary, "gradient_rms/" + parameter.name, parameter.gradient_rms);
    if (parameter.weight_rms > 0) {
      add_scalar(summary, "update_weight_ratio/" + parameter.name,
                 parameter.update_rms / parameter.weight_rms);
    }
  }
}

void add_activations(events::Summary& summary, const ActivationStatistics& activations,
                     double dead_up_to) {
  for (const ActivationStatistics::Place& place : activations.places()) {
    add_scalar(summary,
               fmt::format("activation_rms/layer_{:02}/{}", place.layer, to_string(place.point)),
               place.rms());
    if (const auto share = place.dead_share(dead_up_to))
      add_scalar(summary, fmt::format("dead_share/layer_{:02}", place.layer), *share);
  }
}

// Of entropies from 0 to 1, in twenty equal buckets.
void add_histogram(events::Summary& summary, const std::string& tag,
                   std::span<const double> values) {
  constexpr int kBuckets = 20;
  std::array<double, kBuckets> counts{};
  events::Summary::Value& entry = *summary.add_value();
  entry.set_tag(tag);
  events::Histogram& histogram = *entry.mutable_histo();
  const auto [least, most] = std::ranges::minmax(values);
  histogram.set_min(least);
  histogram.set_max(most);
  histogram.set_num(static_cast<double>(values.size()));
  for (const double value : values) {
    histogram.set_sum(histogram.sum() + value);
    histogram.set_sum_squares(histogram.sum_squares() + value * value);
    const int bucket = static_cast<int>(std::ceil(value * kBuckets)) - 1;
    ++counts[static_cast<std::size_t>(std::clamp(bucket, 0, kBuckets - 1))];
  }
  for (int i = 0; i < kBuckets; ++i) {
    histogram.add_bucket_limit(static_cast<double>(i + 1) / kBuckets);
    histogram.add_bucket(counts[static_cast<std::size_t>(i)]);
  }
}

void add_entropies(events::Summary& summary, const std::string& split,
                   const AttentionStatistics& statistics) {
  std::vector<double> all;
  bool shares = false;
  const auto tag = [&](const std::string& of) {
    return fmt::format("{}/{}/{}", shares ? "share_entropy" : "entropy", split, of);
  };
  for (int layer = 0; layer < statistics.layers(); ++layer) {
    std::vector<double> heads;
    for (int head = 0; head < statistics.heads(); ++head) {
      const HeadStatistics& one = statistics.at(layer, head);
      shares = shares || one.shares;
      if (one.rows_valid > 0 && std::isfinite(one.entropy_norm()))
        heads.push_back(one.entropy_norm());
    }
    if (!heads.empty()) add_histogram(summary, tag(fmt::format("layer_{:02}", layer)), heads);
    all.insert(all.end(), heads.begin(), heads.end());
  }
  if (!all.empty()) add_histogram(summary, tag("all_heads"), all);
}

class TensorBoardLog final : public TrainObserver {
 public:
  explicit TensorBoardLog(fs::path directory) : directory_(std::move(directory)) {}

  void on_start(const RunStart& start) override {
    has_answers_ = start.has_answers;
    dead_up_to_ = dead_up_to(start.config.model.activation);
    const std::optional<std::int64_t> newest = newest_file(directory_);
    const auto now = static_cast<std::int64_t>(seconds_since_1970());
    const std::int64_t seconds = newest ? std::max(now, *newest + 1) : now;
    log_.emplace(directory_ / fmt::format("{}{:010}.{}.{}", kPrefix, seconds, host(), getpid()));
    events::Event first;
    first.set_file_version("brain.Event:2");
    write(first, 0);
    if (!newest) return;
    events::Event restart;
    restart.mutable_session_log()->set_status(events::SessionLog::START);
    write(restart, start.first_step);
  }

  void on_step(const StepRecord& record) override {
    events::Event event;
    events::Summary& summary = *event.mutable_summary();
    if (record.logged) {
      add_evaluation(summary, record, has_answers_);
      if (record.update) add_update(summary, *record.update);
      if (record.activations) add_activations(summary, *record.activations, dead_up_to_);
      if (const auto entropy = entropy_range(record)) {
        const std::string name = entropy->shares ? "share_entropy" : "entropy";
        add_scalar(summary, name + "/mean", entropy->mean);
        add_scalar(summary, name + "/min", entropy->min);
        add_scalar(summary, name + "/max", entropy->max);
      }
    }
    if (record.validation) add_entropies(summary, "val", record.validation->attention);
    if (record.attention_logged && record.attention)
      add_entropies(summary, "train", *record.attention);
    if (summary.value_size() > 0) write(event, record.step);
  }

  void flush() override {
    if (log_) log_->sync();
  }

 private:
  void write(events::Event& event, std::int64_t step) {
    event.set_wall_time(seconds_since_1970());
    event.set_step(step);
    log_->write_bytes(tfrecord(event.SerializeAsString()));
  }

  fs::path directory_;
  bool has_answers_ = true;
  double dead_up_to_ = 0;
  std::optional<LineLog> log_;
};

}  // namespace

void require_tensorboard() {}

std::unique_ptr<TrainObserver> make_tensorboard_log(const fs::path& directory) {
  return std::make_unique<TensorBoardLog>(directory);
}

}  // namespace attune
