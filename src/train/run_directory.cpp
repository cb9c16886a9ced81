#include "attune/train/run_directory.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attune/core/error.h"
#include "attune/core/text.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKeptPrefix = "checkpoint-";
constexpr std::string_view kKeptSuffix = ".safetensors";

[[noreturn]] void fail(const fs::path& path, std::string_view reason) {
  throw IoError(fmt::format("run directory '{}': {}", path.string(), reason));
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(path, error.message());
  if (!fs::is_directory(path, error)) fail(path, "is not a directory");
}

void refuse_run(const fs::path& path) {
  if (!RunDirectory::holds_run(path)) return;
  throw ConfigError(
      fmt::format("--out-dir: '{}' already holds a run; continue it with --resume", path.string()));
}

// The step of a whole log line; nothing where the line is not JSON.
std::optional<std::int64_t> step_of(std::string_view line, const std::string& place) {
  // The parser would take a NUL, which a crash of the machine can leave behind, for the end.
  if (line.find('\0') != std::string_view::npos) return std::nullopt;
  const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  const auto step = json.is_object() ? json.find("step") : json.end();
  const bool is_count = step != json.end() && step->is_number_unsigned() &&
                        step->get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
  if (!is_count) {
    throw IoError(
        fmt::format("{}: expected an object with a whole number from 0 as \"step\"", place));
  }
  return step->get<std::int64_t>();
}

// The lines of a log that come before `step`.
std::string lines_before(std::string_view log, std::int64_t step, const fs::path& path) {
  std::string kept;
  for (std::int64_t number = 1; !log.empty(); ++number) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    const std::string place = fmt::format("{}: line {}", path.string(), number);
    const auto line_step = step_of(line, place);
    if (!line_step && !log.empty()) throw IoError(place + " is not JSON");
    if (line_step && *line_step < step) kept.append(line).push_back('\n');
  }
  return kept;
}

}  // namespace

RunDirectory::RunDirectory(std::filesystem::path path)
    : path_(std::move(path)), lock_(std::make_unique<DirectoryLock>(path_)) {}

RunDirectory RunDirectory::create(const std::filesystem::path& path, const std::string& task) {
  if (path.empty()) {
    make_directories("runs");
    return RunDirectory(make_numbered_directory("run directory", "runs", task));
  }
  refuse_run(path);
  make_directories(path);
  RunDirectory directory(path);
  // Another process may have begun and ended one before the lock was ours.
  refuse_run(path);
  return directory;
}

RunDirectory RunDirectory::open(const std::filesystem::path& path) {
  if (path.empty()) {
    throw ConfigError("--resume: no run directory is given, expected --out-dir DIR");
  }
  if (!holds_run(path)) {
    throw ConfigError(
        fmt::format("--resume: '{}' holds no run, expected a config.toml or a checkpoint in it",
                    path.string()));
  }
  return RunDirectory(path);
}

bool RunDirectory::holds_run(const std::filesystem::path& path) {
  return is_there(path / "config.toml") || is_there(path / "checkpoint.safetensors");
}

fs::path RunDirectory::kept_checkpoint(std::int64_t step) const {
  return path_ / fmt::format("{}{}{}", kKeptPrefix, step, kKeptSuffix);
}

std::vector<std::int64_t> RunDirectory::kept_steps() const {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kKeptPrefix) || !name.ends_with(kKeptSuffix)) continue;
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    const std::string digits =
        name.substr(kKeptPrefix.size(), name.size() - kKeptPrefix.size() - kKeptSuffix.size());
    const auto step = parse_integer(digits);
    // A name that this program would write, as no copy of a person's making needs to be.
    if (step && *step >= 0 && std::to_string(*step) == digits) steps.push_back(*step);
  }
  if (error) fail(path_, error.message());
  std::ranges::sort(steps);
  return steps;
}

void RunDirectory::drop_log_lines_from(std::int64_t step) const {
  for (const fs::path& path :
       {metrics(), attention(), heads(), gradients(), activations(), alarms()}) {
    if (!is_there(path)) continue;
    const std::string log = read_file(path);
    const std::string kept = lines_before(log, step, path);
    if (kept != log) write_file_atomically(path, kept);
  }
}

}  // namespace attune
