#include <filesystem>
#include <optional>

#include "attune/core/file.h"
#include "attune/train/run_directory.h"
#include "fuzz.h"

namespace attune::fuzz {
namespace {

namespace fs = std::filesystem;

// A run directory with nothing in it but what makes it one; removed when the process ends.
class Directory final {
 public:
  Directory() : path_((fs::temp_directory_path() / "attune-fuzz-XXXXXX").string()) {
    require(mkdtemp(path_.data()) != nullptr, "a directory can be made");
    write_file_atomically(fs::path(path_) / "config.toml", "");
    run_.emplace(RunDirectory::open(path_));
  }
  ~Directory() {
    run_.reset();
    fs::remove_all(path_);
  }
  [[nodiscard]] const RunDirectory& run() const { return *run_; }

 private:
  std::string path_;
  std::optional<RunDirectory> run_;
};

// Whether the lines of `part` are lines of `whole` in their order, each with its end.
bool is_part(std::string_view part, std::string_view whole) {
  while (!part.empty()) {
    const std::size_t end = part.find('\n');
    if (end == std::string_view::npos) return false;
    const std::string_view line = part.substr(0, end);
    part.remove_prefix(end + 1);
    for (bool found = false; !found;) {
      if (whole.empty()) return false;
      const std::string_view candidate = whole.substr(0, whole.find('\n'));
      whole.remove_prefix(std::min(candidate.size() + 1, whole.size()));
      found = candidate == line;
    }
  }
  return true;
}

std::string dropped(const RunDirectory& run, std::int64_t step) {
  run.drop_log_lines_from(step);
  return read_file(run.metrics());
}

}  // namespace
}  // namespace attune::fuzz

// The first byte is the step that the run resumes at.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attune;
  if (size == 0) return 0;
  static const fuzz::Directory directory;
  const RunDirectory& run = directory.run();
  const std::int64_t step = data[0];
  const std::string_view log = fuzz::text_of(data + 1, size - 1);
  write_file_atomically(run.metrics(), log);
  try {
    const std::string kept = fuzz::dropped(run, step);
    fuzz::require(fuzz::is_part(kept, log), "what is kept are lines of the log");
    fuzz::require(fuzz::dropped(run, step) == kept, "what is kept is kept again");
    fuzz::require(fuzz::dropped(run, 0).empty(), "no line comes before step 0");
  } catch (const IoError& error) {
    fuzz::require_one_line(error);
    fuzz::require(read_file(run.metrics()) == log, "a log that is refused stays as it was");
  }
  return 0;
}
