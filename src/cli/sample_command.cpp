#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <system_error>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/train/generation.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/saved_run.h"
#include "train/question.h"

namespace attune::cli {
namespace {

constexpr std::string_view kAnswerEnd = ".";  // as tasks with answers spell it

const std::vector<CommandOption>& sample_options() {
  using Takes = CommandOption::Takes;
  static const std::vector<CommandOption> options = {
      {"start",
       {},
       "Sampling",
       "text to continue (default: a line break for a text, a held-out example for other tasks)",
       Takes::value,
       "TEXT"},
      {"num-samples", {}, "Sampling", "texts to write", Takes::value, "N", "1"},
      {"max-new-tokens", {}, "Sampling", "tokens in each", Takes::value, "N", "500"},
      {"temperature",
       {},
       "Sampling",
       "below 1 safer, above 1 wilder; 0: always the likeliest token",
       Takes::value,
       "X",
       "0.8"},
      {"top-k",
       {},
       "Sampling",
       "draw from the k likeliest tokens alone; 0: off",
       Takes::value,
       "K",
       "0"},
      {"top-p",
       {},
       "Sampling",
       "draw from the likeliest tokens that together reach p; 1: off",
       Takes::value,
       "P",
       "1"},
      {"prefill-chunk",
       {},
       "Sampling",
       "tokens of the prompt read in a pass; 0: all, or as many as the model looks back",
       Takes::value,
       "N",
       "0"},
      {"seed", {}, "Sampling", "which texts", Takes::value, "N", "1337"},
  };
  return options;
}

struct SampleRequest {
  std::string run;
  const std::string* start = nullptr;
  std::int64_t samples = 1;
  GenerationOptions generation;
};

template <class T>
T number(const Arguments& arguments, const char* name, T otherwise,
         std::optional<T> (*parse)(std::string_view), const char* kind) {
  const std::string* text = arguments.find(name);
  if (text == nullptr) return otherwise;
  const std::optional<T> value = parse(*text);
  if (!value) throw ConfigError(fmt::format("--{}: '{}' is not {}", name, *text, kind));
  return *value;
}

SampleRequest read_sample_request(const Arguments& arguments) {
  if (arguments.positionals.size() != 1) {
    throw ConfigError("sample: one run directory is expected, as in 'attune sample runs/text-1'");
  }
  SampleRequest request;
  request.run = arguments.positionals.front();
  request.start = arguments.find("start");
  const char* whole = "a whole number";
  request.samples = number<std::int64_t>(arguments, "num-samples", 1, parse_integer, whole);
  request.generation.max_new_tokens =
      number<std::int64_t>(arguments, "max-new-tokens", 500, parse_integer, whole);
  if (request.samples < 1)
    throw ConfigError(fmt::format("--num-samples: {} is below 1", request.samples));
  constexpr std::int64_t kMostTokens = 1 << 24;
  if (request.generation.max_new_tokens < 0 || request.generation.max_new_tokens > kMostTokens) {
    throw ConfigError(fmt::format("--max-new-tokens: {} is outside [0, {}]",
                                  request.generation.max_new_tokens, kMostTokens));
  }
  request.generation.prefill_chunk =
      number<std::int64_t>(arguments, "prefill-chunk", 0, parse_integer, whole);
  if (request.generation.prefill_chunk < 0) {
    throw ConfigError(
        fmt::format("--prefill-chunk: {} is below 0", request.generation.prefill_chunk));
  }
  SamplingOptions& sampling = request.generation.sampling;
  sampling.temperature = number<double>(arguments, "temperature", 0.8, parse_float, "a number");
  sampling.top_k = number<std::int64_t>(arguments, "top-k", 0, parse_integer, whole);
  sampling.top_p = number<double>(arguments, "top-p", 1, parse_float, "a number");
  sampling.check();
  const std::int64_t seed = number<std::int64_t>(arguments, "seed", 1337, parse_integer, whole);
  if (seed < 0) throw ConfigError(fmt::format("--seed: {} is below 0", seed));
  request.generation.random.seed = static_cast<std::uint64_t>(seed);
  return request;
}

// Text goes out as it comes; a reader that went away ends the writing.
void print_token(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "standard output");
  }
}

// Says that a prompt or a text went past the context; once, however many samples do.
class RewindNote final {
 public:
  void operator()() {
    if (!said_)
      print_error("note: past the context of the learned positions; going on from its last half");
    said_ = true;
  }

 private:
  bool said_ = false;
};

void sample_text(const SavedRun& run, SampleRequest& request) {
  const std::string fallback =
      run.vocabulary().texts().front();  // a line break, where the text has one
  const std::string start = request.start && !request.start->empty() ? *request.start : fallback;
  const std::vector<std::int32_t> prompt = run.vocabulary().encode(start);
  RewindNote note;
  for (std::int64_t i = 0; i < request.samples; ++i) {
    if (request.samples > 1) fmt::print("--- sample {}\n", i + 1);
    print_token(start);
    request.generation.random.step = static_cast<std::uint32_t>(i);
    generate(
        run.model(), prompt, request.generation,
        [&](std::int32_t token) { print_token(run.vocabulary().text(token)); }, std::ref(note));
    print_token("\n");
  }
}

// A prompt to answer: given, and its answer unknown, or the beginning of a held-out example.
Question next_question(const SavedRun& run, const SampleRequest& request, std::int64_t i) {
  if (request.start) return {run.vocabulary().encode(*request.start), {}};
  const std::unique_ptr<Task> task = run.task("");
  const BatchSource source(*task, request.generation.random.seed, 0);
  return question_of(source.evaluation(Split::validation, i, 1), 0);
}

// The token that ends an answer; -1 where the task has none (induction).
std::int32_t end_token(const Vocabulary& vocabulary) {
  const std::vector<std::string>& texts = vocabulary.texts();
  const auto found = std::ranges::find(texts, kAnswerEnd);
  return found == texts.end() ? -1 : static_cast<std::int32_t>(found - texts.begin());
}

void sample_answers(const SavedRun& run, SampleRequest& request) {
  RewindNote note;
  for (std::int64_t i = 0; i < request.samples; ++i) {
    const Question asked = next_question(run, request, i);
    GenerationOptions options = request.generation;
    options.random.step = static_cast<std::uint32_t>(i);
    const std::int64_t room =
        run.config().model.block_size - static_cast<std::int64_t>(asked.prompt.size()) + 1;
    options.max_new_tokens = asked.answer.empty()
                                 ? std::min(options.max_new_tokens, std::max<std::int64_t>(room, 1))
                                 : static_cast<std::int64_t>(asked.answer.size());
    options.stop = end_token(run.vocabulary());
    std::vector<std::int32_t> answer;
    generate(
        run.model(), asked.prompt, options, [&](std::int32_t token) { answer.push_back(token); },
        std::ref(note));
    std::string verdict;
    if (!asked.answer.empty()) {
      verdict = answer == asked.answer ? "   right"
                                       : "   wrong: " + run.vocabulary().decode(asked.answer);
    }
    print_token(run.vocabulary().decode(asked.prompt) + " -> " + run.vocabulary().decode(answer) +
                verdict + "\n");
  }
}

}  // namespace

int run_sample(const Command& command, Words words) {
  const Arguments arguments = parse_arguments(words, sample_options());
  if (arguments.find("help")) {
    fmt::print("{}", render_help(command.usage,
                                 "Lets a trained model continue a text or answer a question.",
                                 sample_options()));
    return kDone;
  }
  SampleRequest request = read_sample_request(arguments);
  const SavedRun run(request.run);
  if (run.config().task.name == "text") {
    sample_text(run, request);
  } else {
    sample_answers(run, request);
  }
  return kDone;
}

}  // namespace attune::cli
