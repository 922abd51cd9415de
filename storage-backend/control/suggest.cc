#include "storage-backend/control/suggest.h"

#include <algorithm>

#include "fmt/format.h"

namespace ebb::storage {
namespace {

constexpr size_t kNameBytesMax = 64;  // longer input is no typing mistake, and costs time squared

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string DidYouMean(std::string_view name, const std::vector<std::string_view>& known) {
  if (name.size() > kNameBytesMax) return "";
  std::string_view nearest;
  size_t best = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    if (const size_t distance = EditDistance(name, candidate); distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest.empty() ? "" : fmt::format(": did you mean {}?", nearest);
}

}  // namespace ebb::storage
