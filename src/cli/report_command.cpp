#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/target.h"
#include "attune/core/text.h"
#include "attune/observe/report.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/saved_run.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

// What the maps of all runs of a page may hold together: about two megabytes of it.
constexpr std::int64_t kMostWeights = 500000;
constexpr std::int64_t kMostMapTokens = 128;  // more cannot be read in a map

const std::vector<CommandOption>& report_options() {
  using Takes = CommandOption::Takes;
  static const std::vector<CommandOption> options = {
      {"out",
       {},
       "Output",
       "the page (default: RUN/report.html, of several runs report.html); also -o",
       Takes::value,
       "FILE"},
      {"force", {}, "Output", "replace a file that is no report", Takes::nothing},
      {"example",
       {},
       "Attention maps",
       "which held-out example each model reads",
       Takes::value,
       "N",
       "0"},
      {"input", {}, "Attention maps", "what it reads instead", Takes::value, "TEXT"},
      {"data",
       {},
       "Attention maps",
       "the text, where it lies elsewhere than in training",
       Takes::value,
       "FILE"},
  };
  return options;
}

struct ReportRequest {
  std::vector<std::string> runs;
  fs::path out;
  bool force = false;
  std::int64_t example = 0;
  std::optional<std::string> input;
  std::string data;
};

ReportRequest read_report_request(const Arguments& arguments) {
  ReportRequest request;
  request.runs = arguments.positionals;
  if (request.runs.empty()) {
    throw ConfigError("report: name at least one run, as in: attune report runs/copy-1");
  }
  request.force = arguments.find("force") != nullptr;
  request.example =
      arguments.integer("example", 0, std::numeric_limits<std::int32_t>::max()).value_or(0);
  if (const std::string* text = arguments.find("input")) {
    if (text->empty()) throw ConfigError("--input: is empty; the model must have a token to read");
    if (arguments.find("example")) throw ConfigError("--input and --example: give one of them");
    request.input = *text;
  }
  if (const std::string* text = arguments.find("data")) request.data = *text;
  const std::string* out = arguments.find("out");
  if (out != nullptr && out->empty()) throw ConfigError("--out: is empty; name a file");
  const bool is_one = request.runs.size() == 1;
  request.out = out ? fs::path(*out)
                    : (is_one ? fs::path(request.runs.front()) / "report.html" : "report.html");
  return request;
}

// Only what begins as a report does is replaced unasked.
void check_replaceable(const ReportRequest& request) {
  std::error_code ignored;
  if (request.force || !fs::exists(request.out, ignored)) return;
  std::string begin(kReportMark.size(), '\0');
  std::ifstream stream(request.out, std::ios::binary);
  stream.read(begin.data(), std::ssize(begin));
  if (stream && begin == kReportMark) return;
  throw ConfigError(
      fmt::format("--out: {} is there and is no report; --force replaces it, --out FILE names "
                  "another",
                  request.out.string()));
}

// The tokens of the input that is asked for, without padding.
std::vector<std::int32_t> tokens_of(const SavedRun& run, const ReportRequest& request) {
  if (request.input) return run.vocabulary().encode(*request.input);
  return run.held_out_example(*run.task(request.data), request.example).tokens;
}

std::string shown_token(const std::string& text) {
  if (text == "\n") return "\u21b5";
  if (text == " ") return "\u2423";
  return text;
}

// The checkpoint's part of a report; whatever is wrong with it is shown in its place.
void add_checkpoint(const ReportRequest& request, ReportRun& report) {
  const fs::path path = report.name;
  if (!fs::exists(path / "checkpoint.safetensors")) {
    report.patterns_missing = "there is no checkpoint.safetensors";
    return;
  }
  try {
    const SavedRun run(path.string());
    for (const Parameter& parameter : run.model().parameters()) {
      report.elements[parameter.name()] = parameter.value().shape().size();
    }
    std::vector<std::int32_t> tokens = tokens_of(run, request);
    const auto& model = run.config().model;
    const double maps = static_cast<double>(model.n_layer * model.n_head) *
                        static_cast<double>(request.runs.size());
    const auto room =
        static_cast<std::int64_t>(std::sqrt(static_cast<double>(kMostWeights) / maps));
    const std::int64_t most = std::min({kMostMapTokens, std::max<std::int64_t>(room, 8),
                                        std::max<std::int64_t>(model.block_size, 1)});
    if (std::ssize(tokens) > most) tokens.resize(static_cast<std::size_t>(most));
    report.patterns = attention_patterns(run.model(), tokens);
    report.patterns_missing = report.patterns.missing;
    for (const std::int32_t token : tokens) {
      report.token_texts.push_back(printable(shown_token(run.vocabulary().text(token))));
    }
  } catch (const Error& error) {
    report.patterns_missing = printable(error.what());
  }
}

}  // namespace

int run_report(const Command& command, Words words) {
  const Arguments arguments = parse_arguments(words, report_options());
  if (arguments.find("help")) {
    fmt::print("{}", render_help(command.usage,
                                 "Writes one HTML page about one run or several side by side that "
                                 "works without a network: did it learn, did a head collapse, "
                                 "when. What a run did not log is shown as missing.",
                                 report_options()));
    return kDone;
  }
  const ReportRequest request = read_report_request(arguments);
  if (!can_make_reports()) {
    throw IoError(
        "report: this build holds no charting library; install Debian's libjs-vega "
        "(scripts/install-dependencies.sh does) and build again");
  }
  check_replaceable(request);
  std::vector<ReportRun> runs;
  for (const std::string& path : request.runs) {
    runs.push_back(read_report_run(path));
    add_checkpoint(request, runs.back());
  }
  const std::string page = report_page(runs);
  write_file_atomically(request.out, page);
  for (const ReportRun& run : runs) {
    const Verdict verdict = verdict_of(run);
    fmt::print("{}: {} {}\n", printable(run.name), printable(verdict.learning),
               printable(verdict.heads));
    if (!run.patterns_missing.empty()) {
      fmt::print("{}: no attention maps: {}\n", printable(run.name), run.patterns_missing);
    }
  }
  fmt::print("page: {} ({:.1f} MB)\n", request.out.string(),
             static_cast<double>(page.size()) / 1e6);
  return kDone;
}

}  // namespace attune::cli
