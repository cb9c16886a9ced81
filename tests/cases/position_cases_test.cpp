#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/nn/positional_encoding.h"
#include "cli/run_binary.h"
#include "model/model_test.h"
#include "ops/attention_case.h"

// Kinds of fault that others reported, in positions (B10 to B16). Most are tests of single
// encodings (tests/nn) or of all of them (tests/model); here is what spans several calls.
namespace attune::position_cases_test {

using cli_test::operator+;

// d = 2 at position 3: (cos 3, sin 3); d = 4 at position 1: as in tests/nn. Asked for in turns, in
// both types, so that an answer kept under a key without width or type would show.
TEST(RotaryCases, AnglesOfOtherWidthsAndTypesAreNotMixedUp) {  // B10
  const auto rotated = [](std::vector<double> x, std::int32_t position, DType dtype) {
    Bench bench(dtype);
    const auto width = static_cast<std::int64_t>(x.size());
    const auto rope = make_positional_encoding(
        "rope", bench.root / "position",
        {.model = width, .heads = 1, .head_dim = width, .block_size = 2}, bench.init);
    PositionContext context = PositionContext::of(Positions::range(position, 1));
    rope->prepare(context, {});
    return rope->transform_query(Array::from({1, 1, width}, x, dtype), 1, context).value();
  };
  for (int turn = 0; turn < 2; ++turn) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      expect_near(rotated({1, 0}, 0, dtype), {1, 0}, 0);
      expect_near(rotated({1, 0}, 3, dtype), {-0.989992, 0.141120}, 1e-6);
      expect_near(rotated({1, 2, 3, 4}, 1, dtype), {-1.984111, 1.959901, 2.462378, 4.019800}, 1e-6);
    }
  }
}

TEST(PositionCases, LengthsAndOffsetsOfEarlierCallsAreForgotten) {  // B10
  for (const EncodingInfo& encoding : list_encodings()) {
    SCOPED_TRACE(encoding.name);
    TransformerConfig config = small_config();
    config.positions = encoding.name;
    const Transformer model = random_model(config);
    const std::vector<std::int32_t> tokens = random_tokens(16);
    const std::vector<std::int32_t> four(tokens.begin(), tokens.begin() + 4);
    const Array short_logits = logits_of(model, four);
    // A longer call after a shorter one; by causality its beginning is the shorter one.
    expect_near(columns_of(logits_of(model, tokens), 0, 4), short_logits, 1e-12);
    const Positions far = Positions::range(9, 4);
    Pass pass;
    pass.positions = &far;
    const Array asked_later = logits_of(model, four, pass);
    EXPECT_TRUE(bitwise_equal(asked_later, logits_of(random_model(config), four, pass)));
    EXPECT_TRUE(bitwise_equal(logits_of(model, four), short_logits));
  }
}

std::int64_t lines_of(const std::string& text) { return std::ranges::count(text, '\n'); }

TEST(ContextCases, APromptPastTheContextIsNotCutWithoutNotice) {  // B16
  const cli_test::Workspace space;
  ASSERT_EQ(space.run(cli_test::tiny_run("run") + cli_test::Words{"--pos=learned"}).code, 0);
  const cli_test::Result fits = space.run({"sample", "run", "--start=12="});
  EXPECT_EQ(fits.code, 0);
  EXPECT_EQ(fits.err, "");
  const cli_test::Result beyond =
      space.run({"sample", "run", "--start=123123123123123123=", "--num-samples=3"});
  EXPECT_EQ(beyond.code, 0);
  EXPECT_NE(beyond.err.find("past the context"), std::string::npos) << beyond.err;
  EXPECT_EQ(lines_of(beyond.err), 1) << "said once: " << beyond.err;
}

TEST(ContextCases, GoingPastTheContextIsSaidOnceForAllSamples) {  // B16
  const cli_test::Workspace space;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "abcd\n";
  space.write("text.txt", text);
  const cli_test::Words train{"train",         "text",           "--data=text.txt",
                              "--out-dir=run", "--n-layer=1",    "--n-head=1",
                              "--n-embd=8",    "--block-size=4", "--batch-size=2",
                              "--max-iters=1", "--eval-iters=1", "--pos=learned"};
  ASSERT_EQ(space.run(train).code, 0);
  const cli_test::Result result =
      space.run({"sample", "run", "--start=a", "--max-new-tokens=10", "--num-samples=3"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(lines_of(result.err), 1) << result.err;
}

}  // namespace attune::position_cases_test
