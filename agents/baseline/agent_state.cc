#include "agents/baseline/agent_state.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "fmt/format.h"

namespace ebb::agents {
namespace {

// Neighbouring blanks make an empty word, which no writer makes: it is refused when read.
std::vector<std::string> SplitAtBlanks(std::string_view text) {
  std::vector<std::string> words;
  size_t start = 0;
  for (size_t end = text.find(' '); end != std::string_view::npos; end = text.find(' ', start)) {
    words.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  words.emplace_back(text.substr(start));
  return words;
}

}  // namespace

StateWriter::StateWriter(std::string_view agent, int format)
    : text_(fmt::format("{} {}", agent, format)) {}

void StateWriter::AddWord(std::string_view word) {
  EBB_CHECK(!word.empty() && word.find_first_of(" \n") == std::string_view::npos);
  text_ += ' ';
  text_ += word;
}

void StateWriter::AddInteger(int64_t value) { text_ += fmt::format(" {}", value); }

void StateWriter::AddUnsigned(uint64_t value) { text_ += fmt::format(" {}", value); }

void StateWriter::AddReal(double value) { text_ += fmt::format(" {:.17g}", value); }

absl::StatusOr<StateReader> StateReader::Open(std::string_view text, std::string_view agent,
                                              int format) {
  std::vector<std::string> words = SplitAtBlanks(text);
  if (words.size() < 2 || words[0] != agent) {
    return absl::InvalidArgumentError(fmt::format("this is no saved state of agent {}", agent));
  }
  if (words[1] != fmt::format("{}", format)) {
    return absl::InvalidArgumentError(
        fmt::format("saved state of agent {} has format {}, not {}", agent, words[1], format));
  }
  return StateReader(std::move(words), std::string(agent));
}

void StateReader::Fail(std::string_view what) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(
        fmt::format("saved state of agent {}: word {}: {}", agent_, next_ + 1, what));
  }
}

std::string StateReader::Word() {
  if (!status_.ok()) return "";
  if (next_ >= words_.size() || words_[next_].empty()) {
    Fail("missing");
    return "";
  }
  return words_[next_++];
}

int64_t StateReader::Integer() {
  int64_t value = 0;
  if (const std::string word = Word(); status_.ok() && !absl::SimpleAtoi(word, &value)) {
    Fail("not a whole number");
  }
  return status_.ok() ? value : 0;
}

uint64_t StateReader::Unsigned() {
  uint64_t value = 0;
  if (const std::string word = Word(); status_.ok() && !absl::SimpleAtoi(word, &value)) {
    Fail("not a whole number from 0 on");
  }
  return status_.ok() ? value : 0;
}

double StateReader::Real() {
  double value = 0;
  if (const std::string word = Word();
      status_.ok() && (!absl::SimpleAtod(word, &value) || !std::isfinite(value))) {
    Fail("not a number");
  }
  return status_.ok() ? value : 0;
}

size_t StateReader::Count(size_t max) {
  const int64_t value = Integer();
  if (value < 0 || static_cast<uint64_t>(value) > max) {
    Fail("out of range");
    return 0;
  }
  return static_cast<size_t>(value);
}

absl::StatusOr<std::string> StateReader::TakeRest() {
  if (!status_.ok()) return status_;
  std::string rest;
  for (; next_ < words_.size(); ++next_) {
    if (!rest.empty()) rest += ' ';
    rest += words_[next_];
  }
  return rest;
}

absl::Status StateReader::Close() {
  if (next_ < words_.size()) Fail("more than expected");
  return status_;
}

}  // namespace ebb::agents
