// The saved state of the baseline agents: words separated by blanks, beginning with the agent's
// name and a format number, so that one agent cannot load another's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebb::agents {

class StateWriter {
 public:
  StateWriter(std::string_view agent, int format);
  // Must be neither empty nor contain a blank.
  void AddWord(std::string_view word);
  void AddInteger(int64_t value);
  void AddUnsigned(uint64_t value);
  // Comes back bit for bit.
  void AddReal(double value);
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

// Reads what StateWriter wrote. After the first fault every further read fails as well.
class StateReader {
 public:
  static absl::StatusOr<StateReader> Open(std::string_view text, std::string_view agent,
                                          int format);
  std::string Word();
  int64_t Integer();
  uint64_t Unsigned();
  double Real();
  // A number of things that follow: refused when more than `max`.
  size_t Count(size_t max);
  // All words not read yet, for a state inside this one; nothing is left over then.
  absl::StatusOr<std::string> TakeRest();
  // OK when everything was there and nothing is left over.
  absl::Status Close();

 private:
  StateReader(std::vector<std::string> words, std::string agent)
      : words_(std::move(words)), agent_(std::move(agent)) {}
  void Fail(std::string_view what);

  std::vector<std::string> words_;
  std::string agent_;
  size_t next_ = 2;
  absl::Status status_;
};

}  // namespace ebb::agents
