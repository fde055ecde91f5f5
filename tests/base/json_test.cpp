#include "base/json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>

#include "support/errors.h"

namespace nanofsdp {
namespace {

using nlohmann::json;

// A value with this many brackets within brackets. Its strings are full of brackets, quotation
// marks and backslashes.
json nested(std::mt19937& words, int depth) {
  const auto some_text = [&] {
    std::string text;
    for (std::size_t i = words() % 12; i > 0; --i) text += R"("\[]{}:,)"[words() % 8];
    return text;
  };
  if (depth == 0) return some_text();
  json value = words() % 2 == 0 ? json::array() : json::object();
  const std::size_t deepest = words() % 3;
  for (std::size_t i = 0; i < 3; ++i) {
    json inner = nested(words, i == deepest ? depth - 1 : std::min(depth - 1, 1));
    if (value.is_array()) {
      value.push_back(inner);
    } else {
      value[some_text() + std::to_string(i)] = inner;
    }
  }
  return value;
}

// Brackets in strings do not nest, and an escaped quotation mark does not end a string.
TEST(Json, HasAtMost16BracketsWithinBrackets) {
  std::mt19937 words(2);
  for (int run = 0; run < 200; ++run) {
    const json fits = nested(words, 1 + run % 16), deep = nested(words, 17 + run % 3);
    EXPECT_EQ(parsed_json(fits.dump()), fits);
    testing::expect_error<std::invalid_argument>([&] { parsed_json(deep.dump()); },
                                                 "too many brackets");
  }
}

// A text of another form is the user's mistake. That memory ran out meanwhile is not.
TEST(Json, OfAnotherFormIsAMistakeAndMemoryThatRanOutIsNot) {
  const auto convert = [](const json& value) {
    if (value == "much") throw std::bad_alloc();
    return value.get<int>();
  };
  EXPECT_EQ(parse_json("7", {.what = "file"}, convert), 7);
  for (const char* text : {"\"few\"", "{", ""})
    testing::expect_error<UsageError>([&] { parse_json(text, {.what = "file"}, convert); },
                                      "file: got");
  EXPECT_THROW(parse_json("\"much\"", {.what = "file"}, convert), std::bad_alloc);
}

}  // namespace
}  // namespace nanofsdp
