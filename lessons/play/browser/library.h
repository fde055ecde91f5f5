#pragma once

#include <version>

/// @file
/// @brief The parts of C++20's library that Debian's emscripten (LLVM 13) lacks.
///
/// It has only those parts that the sources use. A newer emscripten has all of them, and then this
/// header is empty.

#if _LIBCPP_VERSION < 14000

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

_LIBCPP_BEGIN_NAMESPACE_STD

template <class C>
span(basic_string_view<C>&) -> span<const C>;

_LIBCPP_END_NAMESPACE_STD

namespace std {

template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

namespace ranges {

template <class Range, class Test>
constexpr bool all_of(Range&& range, Test test) {
  for (auto&& x : range) {
    if (!std::invoke(test, x)) return false;
  }
  return true;
}

template <class Range, class Test>
constexpr bool any_of(Range&& range, Test test) {
  for (auto&& x : range) {
    if (std::invoke(test, x)) return true;
  }
  return false;
}

template <class Range, class Test>
constexpr auto find_if(Range&& range, Test test) {
  auto at = std::begin(range);
  while (at != std::end(range) && !std::invoke(test, *at)) ++at;
  return at;
}

template <class Range, class T, class Projection = identity>
constexpr auto find(Range&& range, const T& value, Projection projection = {}) {
  return ranges::find_if(range, [&](auto&& x) { return std::invoke(projection, x) == value; });
}

template <class Range, class Out>
constexpr void copy(Range&& range, Out out) {
  std::copy(std::begin(range), std::end(range), out);
}

template <class Range, class T>
constexpr void fill(Range&& range, const T& value) {
  std::fill(std::begin(range), std::end(range), value);
}

template <class Range, class Out, class F>
constexpr void transform(Range&& range, Out out, F f) {
  std::transform(std::begin(range), std::end(range), out, f);
}

template <class Range, class Less = std::less<>, class Projection = identity>
constexpr auto max_element(Range&& range, Less less = {}, Projection projection = {}) {
  return std::max_element(std::begin(range), std::end(range), [&](auto&& a, auto&& b) {
    return std::invoke(less, std::invoke(projection, a), std::invoke(projection, b));
  });
}

template <class Range, class Less = std::less<>, class Projection = identity>
constexpr auto min_element(Range&& range, Less = {}, Projection projection = {}) {
  return std::min_element(std::begin(range), std::end(range), [&](auto&& a, auto&& b) {
    return std::invoke(projection, a) < std::invoke(projection, b);
  });
}

template <class Range, class T>
constexpr auto count(Range&& range, const T& value) {
  return std::count(std::begin(range), std::end(range), value);
}

template <class Range>
constexpr auto max(Range&& range) {
  return *ranges::max_element(range);
}

template <class Range, class Less = std::less<>>
constexpr void sort(Range&& range, Less less = {}) {
  std::sort(std::begin(range), std::end(range), less);
}

template <class Range, class Iterator, class Less = std::less<>>
constexpr void nth_element(Range&& range, Iterator nth, Less less = {}) {
  std::nth_element(std::begin(range), nth, std::end(range), less);
}

template <class Range, class Part>
constexpr bool includes(Range&& range, Part&& part) {
  return std::includes(std::begin(range), std::end(range), std::begin(part), std::end(part));
}

}  // namespace ranges
}  // namespace std

#endif
