#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include <fmt/format.h>
// toml++ 3.3 asserts of keys and values what it refuses right after: "[=]" would end a Debug build.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/train/options.h"
#include "train/option_builders.h"
#include "train/toml_text.h"

namespace attune {
namespace {

// Well above any configuration.
constexpr std::size_t kMostBytes = std::size_t{1} << 16;

constexpr std::string_view kTaskKey = "task";
// Beside the options of the group: what identifies the data file.
constexpr std::string_view kDataTable = "data";
constexpr std::string_view kBytesKey = "bytes";
constexpr std::string_view kSha256Key = "sha256";

std::string table_name(const Option& option) {
  std::string name = option.group;
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

std::string key_name(std::string_view option) {
  std::string key(option);
  std::ranges::replace(key, '-', '_');
  return key;
}

// A TOML basic string.
std::string toml_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (code < 0x20 || code == 0x7f) {
      quoted += fmt::format("\\u{:04x}", code);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string toml_value(const Option& option, const std::string& text) {
  switch (option.kind) {
    case Option::Kind::boolean:
      return text;
    case Option::Kind::integer:
      return text == option::kAuto ? toml_string(text) : text;
    case Option::Kind::number:
      if (text == option::kAuto) return toml_string(text);
      return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
    case Option::Kind::choice:
    case Option::Kind::text:
    case Option::Kind::duration:
      return toml_string(text);
  }
  throw InternalError("to_toml: an option of unknown kind");
}

// TOML is UTF-8, and so is the header of a checkpoint that holds it; a path may be anything.
void check_writable(const Option& option, const std::string& text) {
  std::optional<std::size_t> bad_offset;
  static_cast<void>(decode_utf8(text, &bad_offset));
  if (!bad_offset && !has_stand_ins(text)) return;
  const std::string reason = bad_offset ? fmt::format("is not UTF-8 at byte {}", *bad_offset)
                                        : "has a character of plane 15, for private use";
  throw ConfigError(
      fmt::format("--{}: '{}' {}: a configuration cannot hold it", option.name, text, reason));
}

toml::table parse(std::string_view toml, std::string_view source) {
  if (toml.size() > kMostBytes) {
    throw ConfigError(fmt::format("{}: {} bytes, expected at most {} of a configuration", source,
                                  toml.size(), kMostBytes));
  }
  try {
    return toml::parse(to_parser_text(toml, source), source);
  } catch (const toml::parse_error& error) {
    const auto& place = error.source().begin;
    throw ConfigError(fmt::format("{}: line {}, column {}: {}", source, place.line, place.column,
                                  from_parser_text(error.description())));
  }
}

// Applies one document; remembers which option came from which key, so that no option is given
// twice.
class TomlReader final {
 public:
  TomlReader(RunConfig& config, std::string_view source, DataFile* data)
      : config_(config), source_(source), data_(data) {}

  void read(const toml::table& document) {
    for (const auto& [parsed_key, node] : document) {
      const std::string key = from_parser_text(parsed_key.str());
      if (const toml::table* table = node.as_table()) {
        read_table(key, *table);
      } else if (key == kTaskKey) {
        config_.task.name = string_of(key, node);
      } else {
        read_option(key, node);
      }
    }
    if (data_ != nullptr) data_->path = config_.task.data;
  }

 private:
  [[noreturn]] void fail(std::string_view key, std::string_view reason) const {
    throw ConfigError(fmt::format("{}: {}: {}", source_, key, reason));
  }

  void read_table(std::string_view name, const toml::table& table) {
    std::vector<std::string> known;
    for (const Option& option : option_table()) {
      std::string candidate = table_name(option);
      if (std::ranges::count(known, candidate) == 0) known.push_back(std::move(candidate));
    }
    if (std::ranges::count(known, name) == 0) {
      throw ConfigError(fmt::format("{}: [{}] is not a table of options{} (known: {})", source_,
                                    name, did_you_mean(name, known), fmt::join(known, ", ")));
    }
    for (const auto& [parsed_key, node] : table) {
      const std::string key = from_parser_text(parsed_key.str());
      if (name == kDataTable && key == kBytesKey) {
        read_bytes(node);
      } else if (name == kDataTable && key == kSha256Key) {
        const std::string digest = string_of(key, node);
        if (data_ != nullptr) data_->sha256 = digest;
      } else {
        read_option(key, node);
      }
    }
  }

  void read_bytes(const toml::node& node) {
    const auto bytes = node.value_exact<std::int64_t>();
    if (!bytes || *bytes < 0) fail(kBytesKey, "expected a whole number of at least 0");
    if (data_ != nullptr) data_->bytes = *bytes;
  }

  void read_option(std::string_view key, const toml::node& node) {
    const Option* option = find_option(key);
    if (option == nullptr) {
      std::vector<std::string> known;
      for (const std::string& name : option_names()) known.push_back(key_name(name.substr(2)));
      throw ConfigError(fmt::format("{}: {} is not an option{}", source_, key,
                                    did_you_mean(key_name(key), known)));
    }
    const auto [earlier, is_first] = given_.emplace(option->name, key);
    if (!is_first) {
      fail(key, earlier->second == key ? "given twice"
                                       : fmt::format("given twice, also as {}", earlier->second));
    }
    const std::string text = text_of(key, *option, node);
    try {
      option->set(config_, text);
    } catch (const ConfigError& error) {
      std::string_view reason = error.what();
      const std::string prefix = "--" + option->name + ": ";
      if (reason.starts_with(prefix)) reason.remove_prefix(prefix.size());
      fail(key, reason);
    }
  }

  // The value as it would stand on the command line.
  std::string text_of(std::string_view key, const Option& option, const toml::node& node) const {
    if (const auto value = node.value_exact<std::string>()) return from_parser_text(*value);
    if (const auto value = node.value_exact<std::int64_t>()) return std::to_string(*value);
    if (const auto value = node.value_exact<bool>()) return option::text_of(*value);
    if (const auto value = node.value_exact<double>()) {
      if (option.kind == Option::Kind::integer) {
        fail(key, fmt::format("{} is not written as a whole number", format_float(*value)));
      }
      return format_float(*value);
    }
    fail(key, "expected a string, a number, true or false");
  }

  std::string string_of(std::string_view key, const toml::node& node) const {
    if (const auto value = node.value_exact<std::string>()) return from_parser_text(*value);
    fail(key, "expected a string");
  }

  RunConfig& config_;
  std::string_view source_;
  DataFile* data_;
  std::map<std::string, std::string> given_;  // option -> key
};

}  // namespace

std::string to_toml(const RunConfig& config, const DataFile* data) {
  std::string toml = fmt::format("{} = {}\n", kTaskKey, toml_string(config.task.name));
  std::string group;
  for (const Option& option : option_table()) {
    if (!option.in_config) continue;
    if (option.group != group) {
      group = option.group;
      toml += fmt::format("\n[{}]\n", table_name(option));
      if (data != nullptr && table_name(option) == kDataTable) {
        toml += fmt::format("{} = {}\n{} = {}\n", kBytesKey, data->bytes, kSha256Key,
                            toml_string(data->sha256));
      }
    }
    const bool is_data_path = data != nullptr && option.name == "data";
    const std::string text = is_data_path ? data->path : option.get(config);
    check_writable(option, text);
    toml += fmt::format("{} = {}\n", key_name(option.name), toml_value(option, text));
  }
  return toml;
}

void apply_toml(RunConfig& config, std::string_view toml, std::string_view source, DataFile* data) {
  TomlReader(config, source, data).read(parse(toml, source));
}

std::string task_in_toml(std::string_view toml, std::string_view source) {
  const toml::table document = parse(toml, source);
  const toml::node* task = document.get(kTaskKey);
  if (task == nullptr) return "";
  if (const auto name = task->value_exact<std::string>()) return from_parser_text(*name);
  throw ConfigError(fmt::format("{}: {}: expected a string", source, kTaskKey));
}

}  // namespace attune
