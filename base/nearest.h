// NearestWord: the "did you mean" of every message about a mistyped word.
#pragma once

#include <span>
#include <string_view>

namespace ebb {

// The entry of `words` with the fewest edits (insert, delete, replace, swap of neighbours) from
// `typed`, case-blind; empty when none is within a third of the longer word's letters, or one more
// when the first two letters agree ("kept" for keep). Texts over 64 characters have no near word.
std::string_view NearestWord(std::string_view typed, std::span<const std::string_view> words);

}  // namespace ebb
