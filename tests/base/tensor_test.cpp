#include "base/tensor.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/check.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp {
namespace {

using testing::expect_error;
using testing::Owned;

TEST(Shape, CountsItsElements) {
  EXPECT_EQ((Shape{12, 64, 128}).numel(), 12 * 64 * 128);
  EXPECT_EQ((Shape{3, 0}).numel(), 0);
  EXPECT_EQ(Shape().numel(), 1) << "a scalar";
  EXPECT_EQ((Shape{1 << 20, 1 << 20}).numel(), std::int64_t{1} << 40);
}

TEST(Shape, PrintsAsPyTorchsList) {
  EXPECT_EQ((Shape{12, 64, 128}).str(), "[12, 64, 128]");
  EXPECT_EQ(Shape().str(), "[]");
}

TEST(Shape, EqualsOnlyTheSameDimensions) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_NE((Shape{0}), Shape());
}

TEST(Shape, HoldsFourDimensionsAndNoNegativeOne) {
  EXPECT_EQ((Shape{1, 2, 3, 4}).rank(), 4);
  expect_error<ShapeError>([] { Shape{1, 2, 3, 4, 5}; }, "4 dimensions at most, got 5");
  expect_error<ShapeError>([] { Shape{2, -1}; }, "shape [2, -1]");
}

TEST(Tensor, IsAViewOfMemoryThatSomebodyElseOwns) {
  Owned<float> owner({2, 3});
  const Tensor view = owner;
  const Tensor copy = view;
  copy.f32()[4] = 7;
  EXPECT_EQ(owner.values[4], 7);
  EXPECT_EQ(view.raw(), owner.values.data());
  EXPECT_EQ(view.numel(), 6);
  EXPECT_EQ(view.bytes(), 24u);
  EXPECT_EQ(view.span<float>().size(), 6u);
}

TEST(Tensor, ADefaultOneIsAnOperandLeftOut) {
  const Tensor none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.numel(), 0);
  EXPECT_EQ(none.bytes(), 0u);
  float value = 0;
  EXPECT_FALSE(Tensor(&value, {}).empty()) << "a scalar has an element";
  EXPECT_TRUE(Tensor(&value, {0, 5}).empty());
}

TEST(Tensor, GivesItsElementsOnlyAsWhatTheyAre) {
  Owned<bfloat16> halves({4});
  const Tensor t = halves;
  EXPECT_EQ(t.data<bfloat16>(), halves.values.data());
  EXPECT_EQ(t.bytes(), 8u);
  expect_error<ShapeError>([&] { t.f32(); },
                           "elements of a tensor [4]: expected float32, got bfloat16");
  expect_error<ShapeError>([&] { t.span<std::int32_t>(); }, "expected int32");
}

template <class T>
constexpr bool kHasElements = requires(Tensor t) {
  t.data<T>();
};

// Other types of the same size are no dtype, and const is no other type.
TEST(Tensor, GivesElementsOnlyAsTypesThatAreDtypes) {
  EXPECT_TRUE(kHasElements<float> && kHasElements<bfloat16> && kHasElements<double> &&
              kHasElements<std::int32_t> && kHasElements<float8_e4m3>);
  EXPECT_TRUE(kHasElements<const float> && kHasElements<const bfloat16>);
  EXPECT_FALSE(kHasElements<char> || kHasElements<std::uint32_t> || kHasElements<int*> ||
               kHasElements<std::int64_t> || kHasElements<std::uint16_t>);
  Owned<bfloat16> halves({4});
  EXPECT_EQ(halves.view().data<const bfloat16>(), halves.values.data());
  EXPECT_EQ(halves.view().span<const bfloat16>().size(), 4u);
  expect_error<ShapeError>([&] { halves.view().data<const float>(); }, "got bfloat16");
}

TEST(Tensor, ViewsTheSameElementsUnderAnotherShape) {
  Owned<float> owner({4, 6});
  const Tensor t = owner.view().view({2, 2, 6});
  EXPECT_EQ(t.raw(), owner.values.data());
  EXPECT_EQ(t.shape(), (Shape{2, 2, 6}));
  for (const Shape& other : {Shape{5, 5}, Shape{23}, Shape{2, 2, 5}, Shape{0}, Shape{}})
    expect_error<ShapeError>(
        [&] { t.view(other); },
        "view of a tensor [2, 2, 6]: expected 24 elements, got " + other.str());
}

TEST(Tensor, SlicesCountElementsOfItsType) {
  Owned<double> owner({10});
  const Tensor t = owner.view().slice(3, 4);
  EXPECT_EQ(t.data<double>(), owner.values.data() + 3);
  EXPECT_EQ(t.shape(), (Shape{4}));
  EXPECT_EQ(t.dtype(), DType::float64);
  EXPECT_TRUE(owner.view().slice(10, 0).empty());
  for (const auto& [begin, count] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{-1, 2}, {8, 3}, {11, 0}, {3, -1}}) {
    expect_error<ShapeError>(
        [&, begin = begin, count = count] { owner.view().slice(begin, count); },
        "slice of a tensor [10]: expected a range within [0, 10)");
  }
}

}  // namespace
}  // namespace nanofsdp
