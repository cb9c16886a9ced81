#include "attune/autodiff/gradients.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "autodiff/sample_ops.h"

namespace attune::gradients_test {

using sample::multiply;
using sample::sum;

Array values(std::initializer_list<double> numbers) {
  return Array::from({static_cast<std::int64_t>(numbers.size())}, numbers, DType::float64);
}

class GradientsTest : public ::testing::Test {
 protected:
  // d sum(w * x) / dw = x
  Gradients gradients_of(const Parameter& w, const Array& x) {
    Tape tape;
    return tape.backward(sum(multiply(tape.parameter(w), Var(x))));
  }
  ParameterStore store_;
  Parameter& weight_ = store_.create("weight", values({1, 2}));
  Parameter& bias_ = store_.create("bias", values({3}));
};

TEST_F(GradientsTest, AParameterAskedForTwiceIsOneLeaf) {
  Parameter shared("w", 0, Array::scalar(1, DType::float64), {});
  Tape tape;
  // y = w (w 1): gradient 2, one entry
  const Var inner = multiply(tape.parameter(shared), Var(Array::scalar(1, DType::float64)));
  const Var y = multiply(tape.parameter(shared), inner);
  const Gradients gradients = tape.backward(y);
  ASSERT_EQ(gradients.entries().size(), 1u);
  EXPECT_EQ(gradients[shared].item(), 2);
}

TEST_F(GradientsTest, AFrozenParameterIsAConstant) {
  weight_.set_frozen(true);
  Tape tape;
  EXPECT_EQ(tape.parameter(weight_).tape(), nullptr);
  const Var x = tape.leaf(values({5, 7}));
  const Gradients gradients = tape.backward(sum(multiply(tape.parameter(weight_), x)));
  EXPECT_EQ(gradients.find(weight_), nullptr);
  EXPECT_EQ(gradients[x].to_vector(), (std::vector<double>{1, 2}));
  EXPECT_THROW((void)gradients[weight_], UsageError);
}

TEST_F(GradientsTest, AParameterThatTheLossDoesNotReachHasGradientZeroAndIsMarked) {
  Tape tape;
  const Var unused = tape.parameter(bias_);
  const Gradients gradients = tape.backward(sum(tape.parameter(weight_)));
  ASSERT_EQ(gradients.entries().size(), 2u);
  EXPECT_EQ(gradients.entries()[0].parameter, &bias_);
  EXPECT_FALSE(gradients.entries()[0].reached);
  EXPECT_EQ(gradients[bias_].to_vector(), (std::vector<double>{0}));
  EXPECT_TRUE(gradients.entries()[1].reached);
  EXPECT_EQ(gradients[weight_].to_vector(), (std::vector<double>{1, 1}));
}

TEST_F(GradientsTest, AParameterThatTheTapeDidNotTouchIsAnErrorNamingIt) {
  const Gradients gradients = gradients_of(weight_, values({5, 7}));
  EXPECT_EQ(gradients.find(bias_), nullptr);
  try {
    (void)gradients[bias_];
    FAIL() << "nothing was thrown";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "gradients: the tape did not touch the parameter bias");
  }
}

TEST_F(GradientsTest, AGradientIsFoundByTheVarOfALeafOrAParameter) {
  Tape tape;
  const Var w = tape.parameter(weight_);
  const Var x = tape.leaf(values({5, 7}));
  const Var y = multiply(w, x);
  const Gradients gradients = tape.backward(sum(y));
  EXPECT_EQ(gradients[w].to_vector(), (std::vector<double>{5, 7}));
  EXPECT_EQ(gradients[x].to_vector(), (std::vector<double>{1, 2}));
  EXPECT_EQ(gradients.find(y), nullptr);
  EXPECT_EQ(gradients.find(Var(values({1}))), nullptr);
}

// Leaves of two tapes have the same numbers; they must not be taken for each other.
TEST_F(GradientsTest, ALeafOfAnotherTapeIsNotFound) {
  Tape tape;
  Tape other;
  const Var x = tape.leaf(values({5, 7}));
  const Var foreign = other.leaf(values({5, 7}));
  const Gradients gradients = tape.backward(sum(x));
  EXPECT_EQ(gradients.find(foreign), nullptr);
  EXPECT_THROW((void)gradients[foreign], UsageError);
  tape.clear();
  const Var later = tape.leaf(values({5, 7}));
  EXPECT_EQ(gradients.find(later), nullptr);
  EXPECT_NE(gradients.find(x), nullptr);
}

TEST_F(GradientsTest, TheGlobalNormIsTheRootOfTheSumOfAllSquares) {
  Gradients gradients = gradients_of(weight_, values({3, 4}));
  EXPECT_DOUBLE_EQ(gradients.global_norm(), 5);
  gradients += gradients_of(bias_, values({12}));
  EXPECT_DOUBLE_EQ(gradients.global_norm(), 13);
  EXPECT_EQ(Gradients().global_norm(), 0);
}

// The square of 1e20 is beyond float32: 100 of them have the norm 1e21.
TEST_F(GradientsTest, TheGlobalNormOfLargeFloatsDoesNotOverflow) {
  Parameter wide("wide", 0, Array::zeros({100}, DType::float32), {});
  const Gradients gradients = gradients_of(wide, Array::full({100}, 1e20, DType::float32));
  EXPECT_NEAR(gradients.global_norm() / 1e21, 1, 1e-6);
}

TEST_F(GradientsTest, SumsGoEntryByEntryAndKeepWhatOnlyTheOtherHas) {
  Gradients total = gradients_of(weight_, values({1, 2}));
  const Gradients second = gradients_of(weight_, values({10, 20}));
  const Gradients third = gradients_of(bias_, values({5}));
  total += second;
  total += third;
  total += third;
  ASSERT_EQ(total.entries().size(), 2u);
  EXPECT_EQ(total[weight_].to_vector(), (std::vector<double>{11, 22}));
  EXPECT_EQ(total[bias_].to_vector(), (std::vector<double>{10}));
  EXPECT_EQ(second[weight_].to_vector(), (std::vector<double>{10, 20}));
  EXPECT_EQ(third[bias_].to_vector(), (std::vector<double>{5}));
}

TEST_F(GradientsTest, ASumIsReachedWhereOneOfItsTermsIs) {
  Tape tape;
  (void)tape.parameter(weight_);
  Gradients total = tape.backward(sum(tape.parameter(bias_)));
  ASSERT_FALSE(total.entries()[0].reached);
  total += gradients_of(weight_, values({1, 2}));
  EXPECT_TRUE(total.entries()[0].reached);
}

TEST_F(GradientsTest, GradientsAddedToThemselvesAreDoubled) {
  Gradients gradients = gradients_of(weight_, values({1, 2}));
  gradients += gradients;
  EXPECT_EQ(gradients[weight_].to_vector(), (std::vector<double>{2, 4}));
}

TEST_F(GradientsTest, LeavesCannotBeAddedAcrossTapes) {
  Tape tape;
  const Var x = tape.leaf(values({5, 7}));
  const Gradients leaves = tape.backward(sum(x));
  Gradients total;
  EXPECT_THROW(total += leaves, UsageError);
}

}  // namespace attune::gradients_test
