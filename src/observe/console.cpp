#include "attune/observe/console.h"

#include <sys/ioctl.h>
#include <algorithm>
#include <cerrno>
#include <limits>

#include <fmt/format.h>

#include "attune/core/text.h"
#include "attune/observe/entropy_range.h"

namespace attune {
namespace {

constexpr auto kRedrawEvery = std::chrono::milliseconds(100);
constexpr int kBarWidth = 16;

// One line without control characters, at most 100 of them.
std::string shortened(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  constexpr std::size_t kMost = 100;
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;  // a whole character
  return text.substr(0, end) + "...";
}

std::string entropy_text(const EntropyRange& entropy) {
  return fmt::format("{} {:.2f} [{:.2f} {:.2f}]", entropy.shares ? "share entropy" : "entropy",
                     entropy.mean, entropy.min, entropy.max);
}

// Of a terminal; a line that is longer would be wrapped, and clearing it leave its beginning
// behind.
std::size_t columns_of(std::FILE* out) {
  winsize size{};
  const bool is_known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : std::numeric_limits<std::size_t>::max();
}

}  // namespace

void Console::on_start(const RunStart& start) {
  const RunConfig& config = start.config;
  max_iters_ = config.max_iters;
  log_interval_ = config.log_interval;
  first_step_ = start.first_step;
  has_answers_ = start.has_answers;
  directory_ = start.directory;
  begin_ = last_drawn_ = Clock::now();
  print(fmt::format("task: {}, chance {:.3f}, for example: {}", config.task.name, start.chance,
                    shortened(start.example)));
  print(fmt::format("model: {} parameters, {} layers, {} heads, width {}, positions {}",
                    format_count(start.parameters), config.model.n_layer, config.model.n_head,
                    config.model.n_embd, config.model.positions));
  print(fmt::format("device: cpu, {} thread{}, {}, BLAS kernel {}", start.threads,
                    start.threads == 1 ? "" : "s", to_string(config.dtype), start.blas_kernel));
  print(fmt::format("seed: {}", config.seed));
  if (first_step_ > 0) print(fmt::format("resuming at step {}", first_step_));
}

void Console::on_step(const StepRecord& record) {
  if (record.validation) {
    const Evaluation& validation = *record.validation;
    std::string line = fmt::format("step {}: train loss {:.4f}, val loss {:.4f}", record.step,
                                   record.train_evaluation->loss_nats(), validation.loss_nats());
    line += fmt::format(", val accuracy {:.4f}", validation.accuracy());
    if (has_answers_) line += fmt::format(", exact {:.4f}", validation.exact_share());
    print(line);
  }
  const auto entropy = entropy_range(record);
  if (record.update) {
    const UpdateRecord& update = *record.update;
    state_ = fmt::format("loss {:.4f}, accuracy {:.3f}", update.train_loss, update.train_accuracy);
    if (entropy) state_ += ", " + entropy_text(*entropy);
    if (record.step % log_interval_ == 0) {
      std::string line =
          fmt::format("iter {}: loss {:.4f}, time {:.2f}ms, tok/s {:.0f}", record.step,
                      update.train_loss, update.step_ms, update.tokens_per_second);
      if (entropy) line += ", " + entropy_text(*entropy);
      print(line);
    }
  }
  draw_bar(record);
}

void Console::on_note(std::string_view line) { print("note: " + std::string(line)); }

void Console::on_end(const RunSummary& summary) {
  clear_bar();
  std::string line = fmt::format("{} after {} steps in {}", to_string(summary.status),
                                 summary.steps, format_duration(summary.elapsed_seconds));
  if (summary.validation) {
    line += fmt::format(", val loss {:.4f}", summary.validation->loss_nats());
    line += has_answers_ ? fmt::format(", {:.2f} % of answers right",
                                       100 * summary.validation->exact_share())
                         : fmt::format(", accuracy {:.4f}", summary.validation->accuracy());
  }
  print(line);
  if (directory_.empty()) return;
  const bool is_stuck = summary.status == RunStatus::stalled;
  print(fmt::format("run: {}   look at it: attune {} {}", directory_,
                    is_stuck ? "diagnose" : "report", directory_));
}

void Console::print(const std::string& line) {
  clear_bar();
  errno = 0;
  const bool arrived = std::fputs((line + "\n").c_str(), out_) >= 0 && std::fflush(out_) == 0;
  if (!arrived && output_error_ == 0) output_error_ = errno;
}

void Console::draw_bar(const StepRecord& record) {
  if (!is_terminal_ || record.step >= max_iters_) return;
  const auto now = Clock::now();
  if (bar_is_drawn_ && now - last_drawn_ < kRedrawEvery) return;
  last_drawn_ = now;
  const std::chrono::duration<double> here = now - begin_;
  const auto done = static_cast<double>(record.step - first_step_ + 1);
  const double rate = here.count() > 0 ? done / here.count() : 0;
  const auto left = static_cast<double>(max_iters_ - record.step - 1);
  const int filled =
      static_cast<int>(kBarWidth * (record.step + 1) / std::max<std::int64_t>(max_iters_, 1));
  clear_bar();
  std::string bar = fmt::format("[{:#<{}}{:.<{}}] {}/{}  {:.0f} steps/s  ETA {}  {}", "", filled,
                                "", kBarWidth - filled, record.step + 1, max_iters_, rate,
                                rate > 0 ? format_duration(left / rate) : "?", state_);
  bar.resize(std::min(bar.size(), columns_of(out_) - 1));
  std::fputs(bar.c_str(), out_);
  std::fflush(out_);
  bar_is_drawn_ = true;
}

void Console::clear_bar() {
  if (!bar_is_drawn_) return;
  std::fputs("\r\x1b[K", out_);
  bar_is_drawn_ = false;
}

}  // namespace attune
