#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ebb {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "ebb: broken invariant at %s:%d: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace ebb
