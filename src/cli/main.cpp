#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/core/version.h"
#include "cli/build_info.h"
#include "cli/command.h"

namespace attune::cli {
namespace {

constexpr Command kCommands[] = {
    {"train", "attune train TASK [options]", "train a model; the main job", run_train},
    {"eval", "attune eval RUN [options]", "loss, accuracy and attention entropies on held-out data",
     run_eval},
    {"sample", "attune sample RUN [options]", "let a trained model write", run_sample},
    {"attention", "attune attention RUN [options]",
     "what each head attends to: maps, detectors, ablation, patching, logit lens", run_attention},
    {"report", "attune report RUN... [options]",
     "one page about runs: curves, entropies, attention maps, gradients", run_report},
    {"diagnose", "attune diagnose RUN [options]", "why a run does not learn, and what would help",
     run_diagnose},
    {"replay", "attune replay RUN", "run the step of an anomaly again, in float64", run_replay},
    {"doctor", "attune doctor TASK [options]", "ten seconds of checks before a long run",
     run_doctor},
    {"study", "attune study NAME [TASK] [options]",
     "measure initialisation, gradients, curvature, rates over a grid of options", run_study},
    {"gradcheck", "attune gradcheck [TASK] [options]",
     "check every gradient against finite differences", run_gradcheck},
    {"list", "attune list WHAT", "what there is to choose from: tasks, encodings, masks, ...",
     run_list},
};

void print_usage() {
  fmt::print(
      "Attune trains tiny transformers and shows what attention does inside.\n\nusage: attune "
      "COMMAND [options]\n\n");
  for (const Command& command : kCommands)
    fmt::print("  {:<10} {}\n", command.name, command.summary);
  fmt::print(
      "\n  attune COMMAND --help    the options of a command\n"
      "  attune --version         the version\n"
      "  attune --build-info      compiler, flags, BLAS and its kernel, threads\n"
      "\nFor a start: attune train copy\n");
}

int dispatch(Words words) {
  const std::string first = words.empty() ? "--help" : words.front();
  if (first == "--help" || first == "-h" || first == "help") {
    print_usage();
    return words.empty() ? kUsage : kDone;
  }
  if (first == "--version") {
    fmt::print("attune {}\n", kVersion);
    return kDone;
  }
  if (first == "--build-info" || first == "--build_info") {
    fmt::print("{}", build_info());
    return kDone;
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (first == command.name) return command.run(command, words.subspan(1));
    names.emplace_back(command.name);
  }
  throw ConfigError(
      fmt::format("'{}' is no command of attune{}", first, did_you_mean(first, names)));
}

int flushed(int code) {
  errno = 0;
  return with_output_error(code, std::fflush(stdout) == 0 ? 0 : errno);
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

// One line, whatever was typed: what an error quotes may hold line breaks and worse.
std::string command_line(std::string_view command, Words words) {
  std::string line = "attune " + std::string(command);
  for (const char* word : words) line += " " + std::string(word);
  return line;
}

void print_error(std::string_view line) {
  std::fputs(("attune: " + printable(line) + "\n").c_str(), stderr);
}

int with_output_error(int code, int error) {
  if (code != kDone || error == 0 || error == EPIPE || error == EBADF) return code;
  print_error(fmt::format("standard output: {}", std::strerror(error)));
  return kFailed;
}

}  // namespace attune::cli

int main(int argc, char** argv) {
  using namespace attune;
  using namespace attune::cli;
  std::signal(SIGPIPE, SIG_IGN);  // a closed standard output does not end a run
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of the write that meets it
  try {
    const std::vector<const char*> words(argv + 1, argv + argc);
    return flushed(dispatch(words));
  } catch (const ConfigError& error) {
    print_error(error.what());
    return kUsage;
  } catch (const std::system_error& error) {
    // The reader of a long output went away, or there never was one.
    if (error.code().value() == EPIPE || error.code().value() == EBADF) return kDone;
    print_error(error.what());
    return kFailed;
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
    return kFailed;
  } catch (const std::exception& error) {
    print_error(error.what());
    return kFailed;
  }
}
