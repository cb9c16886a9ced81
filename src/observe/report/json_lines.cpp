#include "observe/report/json_lines.h"

#include <cmath>
#include <fstream>
#include <istream>
#include <limits>

#include <nlohmann/json.hpp>

namespace attune {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 16;
constexpr double kMostValue = 1e30;

// The next line without its end, cut at kMostBytes + 1 bytes; false at the end of the file.
bool next_line(std::istream& stream, std::string& line) {
  line.clear();
  std::streambuf& bytes = *stream.rdbuf();
  bool any = false;
  for (int c = bytes.sbumpc(); c != std::char_traits<char>::eof(); c = bytes.sbumpc()) {
    any = true;
    if (c == '\n') return true;
    if (line.size() <= kMostBytes) line += static_cast<char>(c);
  }
  return any;
}

}  // namespace

void read_json_lines(const std::filesystem::path& path, ReportRun::File& file,
                     const std::function<bool(const nlohmann::json&)>& take) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  file.found = true;
  std::ifstream stream(path, std::ios::binary);
  if (!std::filesystem::is_regular_file(path, ignored) || !stream) {
    file.problem = "cannot be read";
    return;
  }
  for (std::string line; next_line(stream, line);) {
    ++file.lines;
    bool used = false;
    if (line.size() <= kMostBytes) {
      const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
      used = json.is_object() && take(json);
    }
    if (!used) ++file.skipped;
  }
}

std::optional<double> number_in(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) return std::nullopt;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (found->is_null()) return kNan;
  if (!found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return std::abs(value) <= kMostValue ? value : kNan;
}

std::optional<std::int64_t> index_in(const nlohmann::json& object, const char* field,
                                     std::int64_t most) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto value = found->get<std::uint64_t>();
  if (value > static_cast<std::uint64_t>(most)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::string text_in(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace attune
