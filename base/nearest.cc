#include "base/nearest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>

namespace ebb {
namespace {

constexpr size_t kLongestWord = 64;

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Optimal string alignment distance; both texts are at most kLongestWord long.
size_t Edits(std::string_view a, std::string_view b) {
  std::array<std::array<size_t, kLongestWord + 1>, 3> rows{};
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i - 1) % 3];
    const auto& above2 = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
          Lower(a[i - 2]) == Lower(b[j - 1])) {
        row[j] = std::min(row[j], above2[j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

}  // namespace

std::string_view NearestWord(std::string_view typed, std::span<const std::string_view> words) {
  if (typed.empty() || typed.size() > kLongestWord) return {};
  std::pair<size_t, std::string_view> best{kLongestWord + 1, {}};
  for (const std::string_view word : words) {
    if (word.empty() || word.size() > kLongestWord) continue;
    const size_t edits = Edits(typed, word);
    const bool same_start = Lower(typed[0]) == Lower(word[0]) && typed.size() > 1 &&
                            word.size() > 1 && Lower(typed[1]) == Lower(word[1]);
    const size_t allowed =
        std::max<size_t>(1, std::max(typed.size(), word.size()) / 3) + (same_start ? 1 : 0);
    if (edits <= allowed && edits < best.first) best = {edits, word};
  }
  return best.second;
}

}  // namespace ebb
