#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "attune/observe/report.h"
#include "cli/run_binary.h"

namespace attune::cli_test::report_command_test {

class ReportCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    space_ = std::make_unique<Workspace>();
    ASSERT_EQ(space_->run(tiny_run("a")).code, 0);
    ASSERT_EQ(space_->run(tiny_run("b") + Words{"--pos=rope"}).code, 0);
  }
  static void TearDownTestSuite() { space_.reset(); }
  void SetUp() override {
    if (!can_make_reports()) GTEST_SKIP() << "this build holds no charting library";
  }

  static nlohmann::json data_of(const std::string& page) {
    const std::string open = "<script type=\"application/json\" id=\"data\">";
    const std::size_t begin = page.find(open) + open.size();
    return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  }

  static std::unique_ptr<Workspace> space_;
};
std::unique_ptr<Workspace> ReportCommand::space_;

TEST_F(ReportCommand, WritesAPageIntoTheRunWithCurvesMapsAndFiles) {
  const Result result = space_->run({"report", "a"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("page: a/report.html"), std::string::npos);
  const std::string page = space_->read("a/report.html");
  EXPECT_LT(page.size(), 1000000u);
  const nlohmann::json data = data_of(page);
  EXPECT_EQ(data["charts"]["loss"]["series"][1]["label"], "training, each batch");
  EXPECT_EQ(data["charts"]["loss"]["series"][1]["x"].size(), 10u);
  const nlohmann::json maps = data["runs"][0]["maps"];
  const std::size_t tokens = maps["tokens"].size();
  ASSERT_EQ(maps["weights"].size(), 2u);  // a layer of two heads
  for (const nlohmann::json& map : maps["weights"]) {
    for (std::size_t query = 0; query < tokens; ++query) {
      int sum = 0;
      for (std::size_t key = 0; key < tokens; ++key) {
        const int weight = map[query * tokens + key];
        EXPECT_EQ(weight<0, key> query);  // causal
        sum += std::max(weight, 0);
      }
      EXPECT_NEAR(sum, 10000, 10);
    }
  }
}

TEST_F(ReportCommand, ComparesRunsAndReadsTheInputThatIsGiven) {
  const Result result = space_->run({"report", "a", "b", "-o", "both.html", "--input", "1 2 ="});
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string page = space_->read("both.html");
  EXPECT_NE(page.find("<td><code>pos</code></td><td class=\"value\">sinusoidal</td>"
                      "<td class=\"value\">rope</td>"),
            std::string::npos);
  EXPECT_EQ(data_of(page)["runs"][1]["maps"]["tokens"], (nlohmann::json{"1", "2", "="}));
}

TEST_F(ReportCommand, ReplacesItsOwnPagesButNoOtherFile) {
  space_->write("mine.html", "<p>mine");
  const Words words{"report", "a", "--out", "mine.html"};
  const Result refused = space_->run(words);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "attune: --out: mine.html is there and is no report; --force replaces it, --out FILE "
            "names another\n");
  EXPECT_EQ(space_->read("mine.html"), "<p>mine");
  EXPECT_EQ(space_->run(words + Words{"--force"}).code, 0);
  EXPECT_EQ(space_->run(words).code, 0);
}

TEST_F(ReportCommand, ADamagedCheckpointCostsTheMapsAlone) {
  space_->write("damaged/metrics.jsonl", "{\"step\":0,\"train_loss\":1}\n");
  space_->write("damaged/checkpoint.safetensors", "no safetensors");
  ASSERT_EQ(space_->run({"report", "damaged"}).code, 0);
  const nlohmann::json data = data_of(space_->read("damaged/report.html"));
  const std::string missing = data["runs"][0]["maps"]["missing"];
  EXPECT_NE(missing.find("damaged/checkpoint.safetensors"), std::string::npos);
  const Result unknown = space_->run({"report", "a", "--input", "x"});
  ASSERT_EQ(unknown.code, 0) << unknown.err;
  EXPECT_NE(unknown.out.find("a: no attention maps: "), std::string::npos);
  EXPECT_TRUE(data_of(space_->read("a/report.html"))["runs"][0]["maps"].contains("missing"));
}

TEST_F(ReportCommand, WrongWordsAreOneLine) {
  EXPECT_EQ(space_->run({"report", "nowhere"}).err, "attune: nowhere: there is no such run\n");
  EXPECT_EQ(space_->run({"report", "nowhere"}).code, 1);
  EXPECT_EQ(space_->run({"report"}).code, 2);
  EXPECT_EQ(space_->run({"report", "a", "--example", "x"}).err,
            "attune: --example: 'x' is not a whole number from 0 to 2147483647\n");
  EXPECT_EQ(space_->run({"report", "a", "--example=1", "--input=1"}).code, 2);
}

}  // namespace attune::cli_test::report_command_test
