#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// @file
/// @brief The default corpus: tiny stories that a grammar generates until there is enough text.
///
/// A grammar is a list of rules; a story is the rule `story` with every `{rule}` in it replaced,
/// again and again, until no brace is left. The notation, by example (ours: data/tales.grammar):
///
///     # a comment: only at the start of a line
///     story = {Hero} met {a guest}. / "Sorry," said {a guest}. | {Hero} slept.
///     hero = Olive the owl | Dudley the dragon
///     guest = ant | polite bear
///       | very small pig                  a line that begins with a space continues the rule
///
/// - `name = x | y`: each use of {name} becomes one of the alternatives. They are dealt like cards:
/// within one story, no alternative is used twice before all have been used once.
/// - `{Name}` is {name} with a capital letter; `{a name}` and `{A name}` put "a" or "an" before it,
/// by the first letter of what follows.
/// - `/` is a line break, as when verse is quoted. Other white space becomes one space, and is
/// removed at the ends.
/// - `=`, `|` and `/` stand between spaces.
///
/// So `{ } | /` never appear in the text itself.

namespace nanofsdp {

/// The text of data/tales.grammar. src/cmake/embed.cmake puts it into the program.
extern const std::string_view kTalesGrammar;

namespace data {

inline constexpr std::size_t kTalesBytes = 1'000'000;  ///< the least size of the default corpus

/// Generates stories until the text has at least `bytes` bytes. The last story is complete. Stories
/// are separated by an empty line, and the text ends with the newline of the last one. The choices
/// come from SplitMix64 with a fixed seed: the same grammar gives the same text on every machine,
/// and a shorter text is the beginning of a longer one.
/// @throws UsageError naming a rule that is used, but is not there. A rule that uses itself never
///   ends; a test says that ours has none.
std::string expand_tales(std::string_view grammar, std::size_t bytes);

}  // namespace data
}  // namespace nanofsdp
