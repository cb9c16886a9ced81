#pragma once

#include <functional>
#include <span>
#include <vector>

namespace attune::benchmarks {

// Quartiles of the rounds.
struct Spread {
  double p25 = 0;
  double median = 0;
  double p75 = 0;
};
// By linear interpolation between order statistics. Throws ValueError without values.
[[nodiscard]] Spread spread_of(std::vector<double> values);
// Of a[round] / b[round]: what slows a machine for a while slows both.
[[nodiscard]] Spread spread_of_ratios(std::span<const double> a, std::span<const double> b);

// Times what is to be compared in turns: each round runs every piece of work once, as often in a
// row as fills 100 ms, after one untimed run where it is repeated. Returns for each piece the
// milliseconds of one run, one entry a round.
[[nodiscard]] std::vector<std::vector<double>> measure_in_turns(
    std::span<const std::function<void()>> pieces, int rounds);

// Throws ConfigError for less than one round.
[[nodiscard]] int checked_rounds(int rounds);

// What main() returns: the program's code, or 1 after one line on standard error.
[[nodiscard]] int run_program(const char* name, const std::function<int()>& program);

}  // namespace attune::benchmarks
