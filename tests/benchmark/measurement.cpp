#include "measurement.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "attune/core/error.h"

namespace attune::benchmarks {
namespace {

constexpr double kRoundMilliseconds = 100;

double milliseconds_of(const std::function<void()>& work, int times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) work();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  return took.count() / times;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) throw ValueError("spread_of: no values");
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
  };
  return {quantile(0.25), quantile(0.5), quantile(0.75)};
}

Spread spread_of_ratios(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) throw ValueError("spread_of_ratios: rounds differ in number");
  std::vector<double> ratios;
  for (std::size_t round = 0; round < a.size(); ++round) ratios.push_back(a[round] / b[round]);
  return spread_of(std::move(ratios));
}

std::vector<std::vector<double>> measure_in_turns(std::span<const std::function<void()>> pieces,
                                                  int rounds) {
  std::vector<int> times;
  for (const auto& piece : pieces) {
    piece();
    double one = milliseconds_of(piece, 1);
    if (one < kRoundMilliseconds) one = std::min(one, milliseconds_of(piece, 2));
    times.push_back(std::max(1, static_cast<int>(std::ceil(kRoundMilliseconds / one))));
  }
  std::vector<std::vector<double>> results(pieces.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (times[i] > 1) pieces[i]();
      results[i].push_back(milliseconds_of(pieces[i], times[i]));
    }
  }
  return results;
}

int checked_rounds(int rounds) {
  if (rounds < 1) throw ConfigError(fmt::format("--rounds: {} is below 1", rounds));
  return rounds;
}

int run_program(const char* name, const std::function<int()>& program) {
  try {
    return program();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

}  // namespace attune::benchmarks
