#pragma once

#include <span>
#include <string>
#include <string_view>

// The commands of the binary. Each reads its own words (those after the command's name), prints to
// standard output and returns the exit code; what it throws is reported by main().
namespace attune::cli {

enum ExitCode : int { kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130 };

using Words = std::span<const char* const>;

struct Command {
  std::string_view name;
  std::string_view usage;    // "attune train TASK [options]"
  std::string_view summary;  // one line
  int (*run)(const Command& command, Words words);
};
[[nodiscard]] std::span<const Command> commands();

// "attune train copy --seed 1"
[[nodiscard]] std::string command_line(std::string_view command, Words words);

// "attune: <line>" on standard error. A stream that was closed is no further error.
void print_error(std::string_view line);

// The exit code of a command whose output met `error` (an errno; 0: none). What it printed has not
// arrived where the disk is full, which is told and makes success a failure; a reader that went
// away (`| head`) had enough.
[[nodiscard]] int with_output_error(int code, int error);

int run_train(const Command& command, Words words);
int run_eval(const Command& command, Words words);
int run_sample(const Command& command, Words words);
int run_attention(const Command& command, Words words);
int run_report(const Command& command, Words words);
int run_diagnose(const Command& command, Words words);
int run_replay(const Command& command, Words words);
int run_doctor(const Command& command, Words words);
int run_study(const Command& command, Words words);
int run_gradcheck(const Command& command, Words words);
int run_list(const Command& command, Words words);

}  // namespace attune::cli
