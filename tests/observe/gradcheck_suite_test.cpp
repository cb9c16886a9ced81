#include "attune/observe/gradcheck_suite.h"

#include <sys/wait.h>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>

#include "attune/array/buffer_pool.h"
#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/reduce.h"
#include "attune/ops/unary.h"

namespace attune::gradcheck_suite_test {

constexpr DType kDouble = DType::float64;

std::string read_header(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> headers_of(const std::string& layer) {
  std::vector<std::string> texts;
  const std::filesystem::path folder =
      std::filesystem::path(ATTUNE_SOURCE_DIR) / "include" / "attune" / layer;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    texts.push_back(read_header(entry.path()));
  }
  return texts;
}

// How many functions of each name the headers of attune/ops declare.
std::map<std::string, int> declared_ops() {
  std::map<std::string, int> count;
  const std::regex declaration(
      R"(\[\[nodiscard\]\]\s+(?:Var|CrossEntropy|ResidualNorm)\s+(\w+)\s*\()");
  for (const std::string& text : headers_of("ops")) {
    for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) {
      ++count[(*at)[1]];
    }
  }
  return count;
}

std::string snake_case(const std::string& name) {
  std::string snake;
  for (const char letter : name) {
    const bool is_upper = std::isupper(static_cast<unsigned char>(letter)) != 0;
    if (is_upper && !snake.empty()) snake += '_';
    snake += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return snake;
}

// The classes of a layer's headers that have a forward pass, in snake case.
std::vector<std::string> declared_layers(const std::string& layer) {
  std::vector<std::string> names;
  const std::regex declaration(R"(class (\w+) final [^{;]*\{)");
  for (const std::string& text : headers_of(layer)) {
    for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) {
      const auto begin = static_cast<std::size_t>(at->position());
      const std::string body = text.substr(begin, text.find("\n};", begin) - begin);
      const bool has_forward = body.find("Var operator()(") != std::string::npos ||
                               body.find("Attended operator()(") != std::string::npos ||
                               body.find("Var logits(") != std::string::npos;
      if (has_forward) names.push_back(snake_case((*at)[1]));
    }
  }
  return names;
}

int cases_that_begin_with(const std::vector<GradcheckCase>& cases, const std::string& name) {
  int count = 0;
  for (const GradcheckCase& one : cases) {
    if (one.name == name || one.name.starts_with(name + " ")) ++count;
  }
  return count;
}

// y = e^x whose backward pass is off by `factor`.
Var wrong_exp(const Var& x, double factor) {
  const Array y = exp(x.detached()).value();
  return record("wrong_exp", {x}, y, [y, factor](const Array& dy, InputGradients& dx) {
    std::vector<double> gradient = y.to_vector();
    const std::vector<double> slopes = dy.to_vector();
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] *= factor * slopes[i];
    dx.add(0, Array::from(y.shape(), gradient, kDouble));
  });
}

std::vector<GradcheckCase> exp_cases(double factor) {
  std::vector<GradcheckCase> cases;
  const Array x = Array::from({2, 3}, {0.1, -0.4, 0.9, 1.3, -2, 0.5}, kDouble);
  cases.push_back({"exp", [](std::span<const Var> in) { return exp(in[0]); }, {x}});
  cases.push_back(
      {"wrong_exp", [factor](std::span<const Var> in) { return wrong_exp(in[0], factor); }, {x}});
  return cases;
}

TEST(GradcheckSuite, EveryCasePasses) {
  const std::int64_t before = buffer_pool::statistics().live_bytes;
  {
    const GradcheckReport report = run_gradcheck(gradcheck_cases(), 1e-6);
    EXPECT_TRUE(report.passed()) << to_text(report);
  }
  EXPECT_EQ(buffer_pool::statistics().live_bytes, before) << "live bytes";
}

TEST(GradcheckSuite, CoversEveryOpOfThePublicHeaders) {
  const std::map<std::string, int> ops = declared_ops();
  const std::vector<GradcheckCase> cases = gradcheck_cases();
  EXPECT_GT(ops.size(), 40u) << "the headers were not understood";
  for (const auto& [name, overloads] : ops) {
    EXPECT_GE(cases_that_begin_with(cases, name), overloads) << name;
  }
}

TEST(GradcheckSuite, CoversEveryLayerAndModelOfThePublicHeaders) {
  const std::vector<GradcheckCase> cases = gradcheck_cases();
  const std::vector<std::string> layers = declared_layers("nn");
  EXPECT_GE(layers.size(), 6u) << "the headers were not understood";
  for (const std::string& name : layers) {
    EXPECT_GT(cases_that_begin_with(cases, "layer " + name), 0) << name;
  }
  const std::vector<std::string> models = declared_layers("model");
  EXPECT_GE(models.size(), 2u) << "the headers were not understood";
  for (const std::string& name : models) {
    const int found = cases_that_begin_with(cases, "layer " + name) +
                      cases_that_begin_with(cases, "model " + name);
    EXPECT_GT(found, 0) << name;
  }
}

TEST(GradcheckSuite, NamesAreDistinct) {
  std::map<std::string, int> count;
  for (const GradcheckCase& one : gradcheck_cases()) ++count[one.name];
  for (const auto& [name, times] : count) EXPECT_EQ(times, 1) << name;
}

TEST(GradcheckSuite, FindsABackwardPassThatIsOffByOnePercent) {
  const GradcheckReport report = run_gradcheck(exp_cases(1.01), 1e-6);
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_TRUE(report.rows[0].passed);
  EXPECT_FALSE(report.rows[1].passed);
  EXPECT_NEAR(report.rows[1].max_error, 0.01 / 1.01, 1e-4);
  EXPECT_FALSE(report.passed());
}

TEST(GradcheckSuite, NamesWhatIsWrongInTheLastLine) {
  const GradcheckReport report = run_gradcheck(exp_cases(1.01), 1e-6);
  const std::string text = to_text(report);
  const std::string last = "gradcheck: wrong_exp is wrong: " + report.rows[1].worst + "\n";
  EXPECT_TRUE(text.ends_with(last)) << text;
  // e^1.3 is the largest of all values.
  EXPECT_NE(last.find("input 0 [2, 3] at 3: analytic "), std::string::npos) << last;
}

TEST(GradcheckSuite, PassesTheSameOpWithTheRightFactor) {
  EXPECT_TRUE(run_gradcheck(exp_cases(1), 1e-6).passed());
}

TEST(GradcheckSuite, CountsACaseThatThrowsAsWrong) {
  std::vector<GradcheckCase> cases;
  cases.push_back({"thrower",
                   [](std::span<const Var>) -> Var { throw ValueError("thrower: no such value"); },
                   {Array::zeros({1}, kDouble)}});
  const GradcheckReport report = run_gradcheck(cases, 1e-6);
  EXPECT_FALSE(report.passed());
  EXPECT_TRUE(std::isinf(report.rows[0].max_error));
  EXPECT_EQ(report.rows[0].worst, "thrower: no such value");
}

TEST(GradcheckSuite, WithoutCasesNothingHasPassed) {
  EXPECT_FALSE(run_gradcheck({}, 1e-6).passed());
}

TEST(WithParameters, SeesAWrongGradientOfAParameter) {
  ParameterStore store;
  Parameter& weight = store.create("weight", Array::from({2}, {0.5, 0.7}, kDouble));
  for (const double factor : {1.0, 1.01}) {
    const DifferentiableFunction f =
        with_parameters(store, 1, [&](std::span<const Var> x, const Pass& pass) {
          return sin(x[0]) * wrong_exp(pass(weight), factor);
        });
    const GradcheckResult result =
        gradcheck(f, {Array::from({2}, {0.2, 0.3}, kDouble), weight.value()});
    EXPECT_EQ(result.passes(), factor == 1.0) << result.worst;
  }
}

TEST(GradcheckParameters, PassesRightGradientsAndPutsValuesBack) {
  ParameterStore store;
  Parameter& weight = store.create("weight", Array::from({3}, {0.5, 0.7, -0.2}, kDouble));
  const std::string before = store.hash();
  const GradcheckReport report =
      gradcheck_parameters(store, [&](const Pass& pass) { return sum(exp(pass(weight))); }, {}, {});
  EXPECT_TRUE(report.passed()) << to_text(report);
  EXPECT_EQ(store.hash(), before);
}

TEST(GradcheckParameters, NamesTheParameterWhoseGradientIsOffByOnePercent) {
  ParameterStore store;
  Parameter& good = store.create("good", Array::from({3}, {0.5, 0.7, -0.2}, kDouble));
  Parameter& bad = store.create("bad", Array::from({3}, {0.1, -0.4, 0.3}, kDouble));
  const auto loss = [&](const Pass& pass) {
    return sum(exp(pass(good)) * wrong_exp(pass(bad), 1.01));
  };
  const GradcheckReport report = gradcheck_parameters(store, loss, {}, {});
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_TRUE(report.rows[0].passed) << report.rows[0].worst;
  EXPECT_FALSE(report.rows[1].passed);
  EXPECT_NE(to_text(report).find("gradcheck: bad is wrong: [3] in direction "), std::string::npos);
}

TEST(GradcheckParameters, PassesOverAKinkNearby) {
  ParameterStore store;
  Parameter& weight = store.create("weight", Array::from({2}, {3e-6, 0.7}, kDouble));
  const GradcheckReport report = gradcheck_parameters(
      store, [&](const Pass& pass) { return sum(relu(pass(weight))); }, {}, {});
  EXPECT_TRUE(report.passed()) << to_text(report);
}

TEST(GradcheckParameters, ChecksOnlyWhatIsAskedForAndNothingFrozen) {
  ParameterStore store;
  for (const char* name : {"a.weight", "a.bias", "b.weight"}) {
    store.create(name, Array::from({1}, {0.5}, kDouble));
  }
  store[2].set_frozen(true);
  const GradcheckReport report = gradcheck_parameters(
      store, [&](const Pass& pass) { return sum(pass(store[0]) * pass(store[1])); }, {},
      {.only = "weight"});
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].name, "a.weight");
}

int exit_code_of(const std::string& words) {
  const std::string command =
      std::string(ATTUNE_BINARY) + " gradcheck " + words + " > /dev/null 2>&1";
  return WEXITSTATUS(std::system(command.c_str()));
}

TEST(GradcheckCommand, ExitCodeTellsRightFromWrong) {
  EXPECT_EQ(exit_code_of("--only exp"), 0);
  EXPECT_EQ(exit_code_of("--only exp --tolerance 1e-300"), 1);
}

TEST(GradcheckCommand, ExitCodeIsTwoForWordsThatMakeNoSense) {
  EXPECT_EQ(exit_code_of("--only sofmax"), 2);
  EXPECT_EQ(exit_code_of("--tolerance none"), 2);
  EXPECT_EQ(exit_code_of("--n-layer 2"), 2);
  EXPECT_EQ(exit_code_of("copy sort"), 2);
}

TEST(GradcheckCommand, ChecksAConfiguredModel) {
  EXPECT_EQ(exit_code_of("copy --n-layer 1 --n-embd 16 --n-head 2 --activation relu"), 0);
}

}  // namespace attune::gradcheck_suite_test
